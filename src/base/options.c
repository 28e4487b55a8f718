#include "options.h"

#include "base.h"
#include "name.h"

#include <zklock/version.h>

#include <stdio.h>
#include <string.h>

/* === structs with a size ====================================================================== */

#define MOST                                                                                       \
    4096 /* more than any release will ever have: the size was not set, and nothing of that length \
            can be read */

static int check(size_t size, const struct zkl__sized *kind, zkl_error *err)
{
    /* Each member behind the first release's is as long as a pointer, or several of that: so a size
     * between two of these ends inside a member, and no release had it. */
    bool whole = (size - kind->first) % sizeof(void *) == 0;
    if (size >= kind->first && size <= MOST && whole) {
        return ZKL_OK;
    }
    return zkl__fail_at(err, ZKL_EINVAL, NULL,
                        "%s.size is %zu, and %zu in libzklock %s: start from %s", kind->name, size,
                        kind->size, ZKL_VERSION, kind->init);
}

int zkl__sized_take(void *own, const void *given, const struct zkl__sized *kind, zkl_error *err)
{
    size_t size = given ? *(const size_t *)given : kind->size;
    int rc = check(size, kind, err);
    for (size_t i = kind->size; rc == ZKL_OK && given && i < size; i++) {
        if (((const unsigned char *)given)[i] != 0) {
            rc =
                zkl__fail_at(err, ZKL_EINVAL, NULL,
                             "%s of %zu bytes sets an option that libzklock %s, with %zu, does not "
                             "have: leave it out, or "
                             "install the libzklock that the program was built with",
                             kind->name, size, ZKL_VERSION, kind->size);
        }
    }
    if (rc == ZKL_OK) {
        memcpy(own, kind->defaults, kind->size);
        if (given) {
            memcpy(own, given, size < kind->size ? size : kind->size);
        }
        *(size_t *)own = kind->size;
    }
    return rc;
}

int zkl__sized_give(void *caller, const void *own, const struct zkl__sized *kind, zkl_error *err)
{
    size_t size = *(const size_t *)caller;
    int rc = check(size, kind, err);
    if (rc == ZKL_OK) {
        memset(caller, 0, size);
        memcpy(caller, own, size < kind->size ? size : kind->size);
        *(size_t *)caller = size;
    }
    return rc;
}

/* === the options of a session ================================================================= */

/* The ZooKeeper client library closes a connection without a response in this time. With one
 * millisecond no server responds in time. */
#define SESSION_TIMEOUT_LEAST_MS 100

int zkl__range_check(const char *name, int64_t value, int64_t least, int64_t most, zkl_error *err)
{
    if (value >= least && value <= most) {
        return ZKL_OK;
    }
    return zkl__fail_at(err, ZKL_EINVAL, NULL, "%s is %lld; %lld to %lld is possible", name,
                        (long long)value, (long long)least, (long long)most);
}

int zkl__timeout_check(int64_t timeout_ms, zkl_error *err)
{
    return timeout_ms >= ZKL_WAIT_FOREVER
               ? ZKL_OK
               : zkl__fail_at(err, ZKL_EINVAL, NULL, "timeout_ms is %lld; ZKL_WAIT_FOREVER is -1",
                              (long long)timeout_ms);
}

int zkl__options_check(const zkl_session_options *o, zkl_error *err)
{
    const zkl_heap *heap = o->heap;
    const zkl_sasl *sasl = o->sasl;
    const struct {
        const char *name;
        int64_t value, least, most;
    } numbers[] = {
        {"session_timeout_ms", o->session_timeout_ms, SESSION_TIMEOUT_LEAST_MS, ZKL__DAY_MS},
        {"tick_ms", o->tick_ms, 1, ZKL__DAY_MS},
        {"leader_pause_ms", o->leader_pause_ms, 0, ZKL__DAY_MS},
        {"connect_timeout_ms", o->connect_timeout_ms, 1, ZKL__DAY_MS},
        {"log_level", (int64_t)o->log_level, ZKL_LOG_ERROR, ZKL_LOG_DEBUG},
        {"callbacks", (int64_t)o->callbacks, ZKL_CALLBACKS_THREAD, ZKL_CALLBACKS_DISPATCH},
        {"observer_masters", o->observer_masters, ZKL_OBSERVER_MASTERS_NONE,
         ZKL_OBSERVER_MASTERS_SOME},
    };
    if (heap && (!heap->alloc || !heap->resize || !heap->release)) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "heap lacks one of its three functions");
    }
    int rc = ZKL_OK;
    for (size_t i = 0; rc == ZKL_OK && i < sizeof numbers / sizeof *numbers; i++) {
        rc = zkl__range_check(numbers[i].name, numbers[i].value, numbers[i].least, numbers[i].most,
                              err);
    }
    if (rc != ZKL_OK) {
        return rc;
    }
    if (!o->auth_scheme && o->auth) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "auth comes without auth_scheme");
    }
    if (o->auth_scheme && (!o->auth_scheme[0] || !o->auth)) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "auth_scheme is empty, or comes without auth");
    }
    if (o->auth_scheme) {
        rc = zkl__range_check("auth_size", (int64_t)o->auth_size, 1, 65536, err);
    }
    if (rc != ZKL_OK) {
        return rc;
    }
    if (o->tls && sasl) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "tls and sasl: the client library has no call for both");
    }
    if (sasl && (!sasl->mechanisms || !sasl->host)) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL, "sasl lacks its mechanisms or its host");
    }
    /* A CA alone is enough for some versions of the client library, which checks that itself.
     * An empty name is passed over by strtok_r, there and in our check of the servers, so that a
     * password would be taken for a file's name, and logged. */
    if (o->tls &&
        (o->tls[0] == '\0' || o->tls[0] == ',' || memmem(o->tls, strlen(o->tls), ",,", 2))) {
        return zkl__fail_at(err, ZKL_EINVAL, NULL,
                            "tls is not of the form \"ca.pem[,cert.pem,key.pem]\"");
    }
    return zkl__acl_check(o->acl, err);
}

/* The text, if there is one, becomes a copy. False: no memory, and there is none. */
static bool own_text(const zkl_heap *heap, const char **text)
{
    if (!*text) {
        return true;
    }
    *text = zkl__copy_text(heap, *text);
    return *text;
}

bool zkl__settings_copy(struct zkl__settings *settings, const zkl_heap *heap, const char *servers,
                        const zkl_session_options *options)
{
    const zkl_sasl *sasl = options->sasl;
    zkl_session_options *own = &settings->options;
    *settings = (struct zkl__settings){.servers = servers, .options = *options};
    own->heap = NULL; /* the caller has copied it before, to allocate with */
    bool ok = own_text(heap, &settings->servers);
    ok = own_text(heap, &own->auth_scheme) && ok;
    ok = own_text(heap, &own->tls) && ok;
    ok = own_text(heap, &own->tls_host) && ok;
    if (own->auth) {
        own->auth = zkl__copy(heap, own->auth, own->auth_size);
        ok = ok && own->auth;
    }
    if (own->acl) {
        own->acl = zkl__acl_copy(heap, own->acl);
        ok = ok && own->acl;
    }
    if (sasl) { /* one block */
        const char *service = sasl->service ? sasl->service : "zookeeper";
        size_t size = strlen(sasl->mechanisms) + strlen(service) + strlen(sasl->host) + 3;
        zkl_sasl *copy = zkl__zalloc(heap, sizeof *copy + size);
        if (copy) {
            char *end = (char *)(copy + 1);
            copy->mechanisms = zkl__text_put(&end, sasl->mechanisms);
            copy->service = zkl__text_put(&end, service);
            copy->host = zkl__text_put(&end, sasl->host);
            copy->callbacks = sasl->callbacks;
        }
        own->sasl = copy;
        ok = ok && copy;
    }
    return ok;
}

void zkl__settings_wipe(const struct zkl__settings *settings)
{
    const zkl_session_options *own = &settings->options;
    if (own->auth) {
        explicit_bzero((void *)own->auth, own->auth_size);
    }
    if (own->tls) { /* it may end with the key's password */
        explicit_bzero((void *)own->tls, strlen(own->tls));
    }
}

void zkl__settings_free(struct zkl__settings *settings, const zkl_heap *heap)
{
    const zkl_session_options *own = &settings->options;
    zkl__settings_wipe(settings);
    const void *const copies[] = {settings->servers, own->auth_scheme, own->auth,    own->acl,
                                  own->sasl,         own->tls,         own->tls_host};
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        zkl__free(heap, (void *)copies[i]);
    }
}
