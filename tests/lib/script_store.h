/* script_store.h - the store of script.h: a small tree, watches, and what is done and not told yet. Only script.c uses it. */
#ifndef ZKL_TESTS_SCRIPT_STORE_H
#define ZKL_TESTS_SCRIPT_STORE_H

#include "script.h"

/* Watches are set again, as the client library does: what happened meanwhile is news. */
void script_store_connect(struct script *s);
/* What is under way is lost, and what was done is not told. */
void script_store_disconnect(struct script *s);
/* Its nodes go, and its watches. */
void script_store_end_session(struct script *s);
void script_store_deliver_all(struct script *s);
/* Frees what was not told. */
void script_store_forget(struct script *s);

#endif
