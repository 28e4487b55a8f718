/* script_store.h - the store of script.h: a session with the in-process store that no thread delivers to. Only script.c uses it. */
#ifndef ZKL_TESTS_SCRIPT_STORE_H
#define ZKL_TESTS_SCRIPT_STORE_H

#include "script.h"

void script_store_init(void);
void script_store_deinit(void);
bool script_store_is_connected(void);
void script_store_deliver_all(void);

#endif
