/* fake_wire.h - requests and answers of ZooKeeper's protocol, as fake.h needs them: from and to what store.h says. */
#ifndef ZKL_SHELL_FAKE_WIRE_H
#define ZKL_SHELL_FAKE_WIRE_H

#include "fake.h"
#include "jute.h"
#include "store.h"

#define PARTS_MAX 8

enum {
    CREATE = 1,
    DELETE = 2,
    EXISTS = 3,
    GET = 4,
    SET = 5,
    SYNC = 9,
    PING = 11,
    CHILDREN = 12,
    CHECK = 13,
    MULTI = 14,
    CREATE2 = 15,
    UNWATCH = 18,
    CONTAINER = 19,
    AUTH = 100,
    SET_WATCHES = 101,
    CLOSE = -11
};

struct fake_request {
    int link;
    int32_t xid, type;
    enum fake_fate fate;
    char *path;
    size_t part_count;
    struct {
        int32_t type;
        char *path;
    } parts[PARTS_MAX];
};

void fake_request_free(struct fake_request *request);
/* What stands behind the path of a request of this type. */
void fake_parse_rest(struct jute_in *in, int32_t type, struct zkl__op *op);
/* dir and name of a path, in a copy that lives as long as the request. */
void fake_set_path(struct zkl__op *op, char *path);

int32_t fake_code(const struct zkl__reply *reply);
void fake_put_text(struct jute_out *out, const char *text);
void fake_put_body(struct jute_out *out, const struct fake_request *request, const struct zkl__reply *reply);
void fake_put_parts(struct jute_out *out, const struct fake_request *request,
                    const struct zkl__reply *reply); /* of a multi */

#endif
