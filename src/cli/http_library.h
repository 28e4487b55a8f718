/* http_library.h - libmicrohttpd, loaded when there is something to be served: it brings a TLS
 * library and seven more along, and with them every start of the command took 2 ms more. */
#ifndef ZKL_CLI_HTTP_LIBRARY_H
#define ZKL_CLI_HTTP_LIBRARY_H

#include <stdbool.h>

#include <microhttpd.h>

extern struct http_library {
    __typeof__(MHD_start_daemon) *start_daemon;
    __typeof__(MHD_stop_daemon) *stop_daemon;
    __typeof__(MHD_create_response_from_buffer) *create_response_from_buffer;
    __typeof__(MHD_destroy_response) *destroy_response;
    __typeof__(MHD_add_response_header) *add_response_header;
    __typeof__(MHD_queue_response) *queue_response;
} http_library;

/* False: it is not there, or has not all of these; *why is the loader's word for it. It stays
 * loaded. */
bool http_library_load(const char **why);

#endif
