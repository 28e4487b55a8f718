#include "fields.h"

static void add(struct fields *fields, struct jute_in *in, const struct frame *frame, int form, enum lie lie)
{
    static const size_t sizes[] = {[FIELD_INT] = 4, [FIELD_LONG] = 8, [FIELD_BOOL] = 1};
    struct field field = {.form = form, .lie = lie, .at = (size_t)(in->at - frame->bytes)};
    if (form == FIELD_TEXT) {
        size_t size;
        jute_bytes(in, &size);
        field.size = 4 + size;
    } else {
        field.size = sizes[form];
        jute_get(in, field.size);
    }
    if (!in->bad && fields->count < FIELDS_MAX) {
        fields->all[fields->count++] = field;
    }
}

static void add_stat(struct fields *fields, struct jute_in *in, const struct frame *frame)
{
    /* czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, data length, children, pzxid */
    static const char forms[] = "LLLLIIILIIL";
    for (const char *form = forms; *form; form++) {
        add(fields, in, frame, *form == 'L' ? FIELD_LONG : FIELD_INT, LIE_NUMBER);
    }
}

static void add_list(struct fields *fields, struct jute_in *in, const struct frame *frame)
{
    struct jute_in count = *in;
    fields->list_at = (size_t)(in->at - frame->bytes);
    add(fields, in, frame, FIELD_INT, LIE_LIST);
    for (int32_t i = jute_int(&count); i > 0 && !in->bad; i--) {
        add(fields, in, frame, FIELD_TEXT, LIE_NAME);
    }
    fields->list_end = (size_t)(in->at - frame->bytes);
}

static void add_body(struct fields *fields, struct jute_in *in, const struct frame *frame, int type, enum lie lie)
{
    switch (type) {
    case FRAME_CREATE2:
    case FRAME_CONTAINER:
        add(fields, in, frame, FIELD_TEXT, lie == LIE_NONE ? LIE_NAME : lie);
        add_stat(fields, in, frame);
        break;
    case FRAME_CREATE:
    case FRAME_SYNC:
        add(fields, in, frame, FIELD_TEXT, lie == LIE_NONE ? LIE_NAME : lie);
        break;
    case FRAME_GET:
        add(fields, in, frame, FIELD_TEXT, LIE_DATA);
        add_stat(fields, in, frame);
        break;
    case FRAME_SET:
    case FRAME_EXISTS:
        add_stat(fields, in, frame);
        break;
    case FRAME_CHILDREN2:
        add_list(fields, in, frame);
        add_stat(fields, in, frame);
        break;
    case FRAME_CHILDREN:
        add_list(fields, in, frame);
        break;
    default:
        break;
    }
}

static void add_parts(struct fields *fields, struct jute_in *in, const struct frame *frame)
{
    for (bool done = false; !done && !in->bad;) {
        struct jute_in ahead = *in;
        int32_t type = jute_int(&ahead);
        done = jute_bool(&ahead);
        add(fields, in, frame, FIELD_INT, LIE_MULTI);
        add(fields, in, frame, FIELD_BOOL, LIE_MULTI);
        add(fields, in, frame, FIELD_INT, LIE_ERROR);
        if (type == -1 && !done) {
            add(fields, in, frame, FIELD_INT, LIE_ERROR);
        } else if (!done) {
            add_body(fields, in, frame, type, LIE_NAME);
        }
    }
}

static void add_welcome(struct fields *fields, struct jute_in *in, const struct frame *frame)
{
    add(fields, in, frame, FIELD_INT, LIE_WELCOME);  /* version of the protocol */
    add(fields, in, frame, FIELD_INT, LIE_WELCOME);  /* timeout */
    add(fields, in, frame, FIELD_LONG, LIE_WELCOME); /* session */
    add(fields, in, frame, FIELD_TEXT, LIE_WELCOME); /* its password */
    add(fields, in, frame, FIELD_BOOL, LIE_WELCOME); /* read only */
}

void fields_find(struct fields *fields, const struct frame *frame)
{
    struct jute_in in = {.at = frame->bytes, .end = frame->bytes + frame->size};
    fields->count = fields->list_at = fields->list_end = 0;
    fields->err = 0;
    if (frame->type == FRAME_WELCOME) {
        add_welcome(fields, &in, frame);
        return;
    }
    add(fields, &in, frame, FIELD_INT, LIE_XID);
    add(fields, &in, frame, FIELD_LONG, LIE_NUMBER);
    struct jute_in err = in;
    fields->err = jute_int(&err);
    add(fields, &in, frame, FIELD_INT, LIE_ERROR);
    if (frame->type == FRAME_EVENT) {
        add(fields, &in, frame, FIELD_INT, LIE_EVENT); /* what happened */
        add(fields, &in, frame, FIELD_INT, LIE_EVENT); /* state of the session */
        add(fields, &in, frame, FIELD_TEXT, LIE_EVENT);
    } else if (frame->type == FRAME_MULTI) {
        add_parts(fields, &in, frame);
    } else if (fields->err == 0) {
        add_body(fields, &in, frame, (int)frame->type, LIE_NONE);
    }
}
