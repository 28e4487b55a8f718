#include "fake_wire.h"

/* --- answers ------------------------------------------------------------------------------------------------------ */

void fake_put_text(struct jute_out *out, const char *text)
{
    jute_put_bytes(out, text, strlen(text));
}

static void put_stat(struct jute_out *out, const struct zkl__stat *stat)
{
    jute_put_long(out, stat->czxid);
    jute_put_long(out, stat->mzxid);
    jute_put_long(out, stat->ctime_ms);
    jute_put_long(out, stat->mtime_ms);
    jute_put_int(out, stat->version);
    jute_put_int(out, stat->cversion);
    jute_put_int(out, 0);
    jute_put_long(out, stat->ephemeral_owner);
    jute_put_int(out, stat->data_size);
    jute_put_int(out, stat->child_count);
    jute_put_long(out, stat->mzxid);
}

int32_t fake_code(const struct zkl__reply *reply)
{
    static const int32_t codes[] = {[ZKL__RC_OK] = 0,
                                    [ZKL__RC_NONODE] = -101,
                                    [ZKL__RC_NODEEXISTS] = -110,
                                    [ZKL__RC_NOTEMPTY] = -111,
                                    [ZKL__RC_BADVERSION] = -103,
                                    [ZKL__RC_NOAUTH] = -102,
                                    [ZKL__RC_INVALIDACL] = -114,
                                    [ZKL__RC_EPHEMERALPARENT] = -108,
                                    [ZKL__RC_NOWATCH] = -121,
                                    [ZKL__RC_ROLLEDBACK] = -2,
                                    [ZKL__RC_REFUSED] = -8};
    return reply->rc <= ZKL__RC_REFUSED && (reply->rc == ZKL__RC_OK || codes[reply->rc]) ? codes[reply->rc] : -8;
}

/* The path that a create made: its directory, and the name that the store says. */
static void put_made(struct jute_out *out, const char *asked, const char *name)
{
    char path[1200];
    snprintf(path, sizeof path, "%.*s/%s", (int)(strrchr(asked, '/') - asked), asked, name);
    fake_put_text(out, path);
}

void fake_put_parts(struct jute_out *out, const struct fake_request *request, const struct zkl__reply *reply)
{
    bool failed = reply->rc != ZKL__RC_OK;
    for (size_t i = 0; i < reply->part_count; i++) {
        const struct zkl__reply *part = &reply->parts[i];
        jute_put_int(out, failed ? -1 : request->parts[i].type);
        jute_put_number(out, 0, 1);
        jute_put_int(out, failed ? fake_code(part) : 0);
        if (failed) {
            jute_put_int(out, fake_code(part));
        } else if (request->parts[i].type == CREATE) {
            put_made(out, request->parts[i].path, part->name);
        } else if (request->parts[i].type == SET) {
            put_stat(out, &part->stat);
        }
    }
    jute_put_int(out, -1);
    jute_put_number(out, 1, 1);
    jute_put_int(out, -1);
}

void fake_put_body(struct jute_out *out, const struct fake_request *request, const struct zkl__reply *reply)
{
    switch (request->type) {
    case CREATE2:
    case CONTAINER:
        put_made(out, request->path, reply->name);
        put_stat(out, &reply->stat);
        break;
    case CREATE:
        put_made(out, request->path, reply->name);
        break;
    case GET:
        jute_put_bytes(out, reply->data, reply->size);
        put_stat(out, &reply->stat);
        break;
    case CHILDREN:
        jute_put_int(out, (int32_t)reply->child_count + (request->fate == FAKE_COUNT_TOO_HIGH));
        for (size_t i = 0; i < reply->child_count; i++) {
            fake_put_text(out, reply->children[i]);
        }
        if (request->fate != FAKE_COUNT_TOO_HIGH) { /* it would be read as names */
            put_stat(out, &reply->stat);
        }
        break;
    case SYNC:
        fake_put_text(out, request->path);
        break;
    case EXISTS:
    case SET:
        put_stat(out, &reply->stat);
        break;
    default:
        break;
    }
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

void fake_request_free(struct fake_request *request)
{
    for (size_t i = 0; i < request->part_count; i++) {
        free(request->parts[i].path);
    }
    free(request->path);
    free(request);
}

void fake_set_path(struct zkl__op *op, char *path)
{
    char *slash = strrchr(path, '/');
    op->dir = path;
    if (slash && slash != path) {
        *slash = '\0';
        op->name = slash + 1;
    } else if (slash && slash[1]) {
        op->dir = "/";
        op->name = slash + 1;
    }
}

static void skip_acl(struct jute_in *in)
{
    size_t size;
    for (int32_t count = jute_int(in); count > 0 && !in->bad; count--) {
        jute_int(in);
        jute_bytes(in, &size);
        jute_bytes(in, &size);
    }
}

static void parse_create(struct jute_in *in, struct zkl__op *op)
{
    static const enum zkl__create_mode modes[] = {ZKL__PERSISTENT, ZKL__EPHEMERAL, ZKL__PERSISTENT_SEQUENTIAL,
                                                  ZKL__EPHEMERAL_SEQUENTIAL, ZKL__CONTAINER};
    op->kind = ZKL__OP_CREATE;
    op->data = jute_bytes(in, &op->size);
    skip_acl(in);
    int32_t flags = jute_int(in);
    in->bad = in->bad || flags < 0 || flags > 4;
    op->mode = in->bad ? ZKL__PERSISTENT : modes[flags];
}

void fake_parse_rest(struct jute_in *in, int32_t type, struct zkl__op *op)
{
    switch (type) {
    case CREATE:
    case CREATE2:
    case CONTAINER:
        parse_create(in, op);
        break;
    case DELETE:
    case CHECK:
        op->kind = type == DELETE ? ZKL__OP_DELETE : ZKL__OP_CHECK;
        op->version = jute_int(in);
        break;
    case SET:
        op->kind = ZKL__OP_SET;
        op->data = jute_bytes(in, &op->size);
        op->version = jute_int(in);
        break;
    case EXISTS:
    case GET:
    case CHILDREN:
        op->kind = type == GET ? ZKL__OP_GET : type == EXISTS ? ZKL__OP_EXISTS : ZKL__OP_CHILDREN;
        op->watch = jute_bool(in);
        break;
    case SYNC:
        op->kind = ZKL__OP_SYNC;
        break;
    case UNWATCH:
        op->kind = ZKL__OP_UNWATCH;
        jute_int(in);
        break;
    default:
        in->bad = true;
    }
}
