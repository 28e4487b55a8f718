/* script_store.h - the store of script.h: the in-process store's tree, watches, and what is done and not told yet. Only script.c uses it. */
#ifndef ZKL_TESTS_SCRIPT_STORE_H
#define ZKL_TESTS_SCRIPT_STORE_H

#include "script.h"

/* Watches are set again, as the client library does: what happened meanwhile is news. */
void script_store_connect(void);
/* What is under way is lost, and what was done is not told. */
void script_store_disconnect(void);
/* Its nodes go, and its watches. */
void script_store_end_session(void);
void script_store_deliver_all(void);
/* Frees what was not told. */
void script_store_forget(void);

#endif
