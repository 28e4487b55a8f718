/* lies.c - lies about replies, and what the client library does not survive.
 *
 * Nothing above libzookeeper_mt can repair these, known of 3.8.0. ZooKeeper's servers send none of them. A liar
 * that tells one has an `excuse`:
 *
 *  - a well-formed reply that nobody waits for ends the process by an assertion (zookeeper_process);
 *  - so does a reply to a transaction with more parts than the transaction, or without an end
 *    (deserialize_multi);
 *  - a reply to credentials makes a client that sent none read at address 8 (auth_completion_func);
 *  - of a complete frame that is too short for its header, its event, or the data, name or list of its
 *    reply, the library reads beyond the end, or frees or passes on memory that it never filled;
 *  - a list whose count needs more memory than there is makes it write to address 0;
 *  - after a welcome that says read-only it looks for another server. When it finds one, it reports every
 *    request under way as successful and reads replies that never came (zookeeper_interest, cleanup with
 *    ZOK): a crash, or a lost write that is taken for done;
 *  - after a welcome with a session timeout of 0 or less it connects again and again without a pause,
 *    until the session is closed; zkl_session_open fails by its deadline. */
#include "lies.h"

#include "dice.h"

#define NAMES_MAX 300

/* --- where the fields of a reply are ---------------------------------------------------------------------------------- */

#define FIELDS_MAX 512

struct field {
    enum { FIELD_INT, FIELD_LONG, FIELD_BOOL, FIELD_TEXT } form; /* a text has its length in front */
    enum lie lie;                                                /* what changing it is */
    size_t at, size;
};

struct fields {
    struct field all[FIELDS_MAX];
    size_t count;
    size_t list_at, list_end; /* a list of names, from its count to its end; both 0: none */
    int32_t err;
};

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

static void fields_find(struct fields *fields, const struct frame *frame)
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

/* --- kinds ------------------------------------------------------------------------------------------------------------ */

static const char *const names[LIES] = {"none",  "number", "error", "name",   "list",    "data",  "xid", "welcome",
                                        "event", "multi",  "drop",  "repeat", "reorder", "delay", "cut", "short"};

const char *lie_name(enum lie lie)
{
    return names[lie];
}

/* --- values -------------------------------------------------------------------------------------------------------- */

static int64_t other_number(uint64_t *dice, int64_t value, size_t size)
{
    const int64_t edges[] = {0, 1, -1, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, value + 1, value - 1, -value};
    switch (dice_below(dice, 4)) {
    case 0:
        return (int64_t)dice_next(dice) >> dice_below(dice, 63);
    case 1:
        return (int64_t)((uint64_t)value << dice_below(dice, (int64_t)size * 8));
    default:
        return edges[dice_below(dice, sizeof edges / sizeof *edges)];
    }
}

/* Codes of the server, of the client library's own, and no codes at all. */
static int32_t other_error(uint64_t *dice, int32_t err)
{
    int32_t other = err;
    while (other == err || other == 0) {
        int64_t roll = dice_below(dice, 8);
        other = roll < 4   ? (int32_t)-dice_between(dice, 100, 128)
                : roll < 7 ? (int32_t)-dice_between(dice, 1, 13)
                           : (int32_t)other_number(dice, err, 4);
    }
    return other;
}

/* Makes another name of one of the server's: out is what stands in its place, with its length in front. */
static void put_name(struct jute_out *out, uint64_t *dice, const char *name, size_t size)
{
    static const char *const foreign[] = {"",
                                          "/",
                                          "locks",
                                          "leases",
                                          "ready",
                                          "lock-0000000000",
                                          "x-lock--000000005",
                                          "__lock__0000000000",
                                          "_c_00000000-0000-4000-8000-000000000000-lock-0000000000",
                                          "_c_00000000-0000-4000-8000-000000000000__READ__0000000000",
                                          "_c_00000000-0000-4000-8000-000000000000-latch-0000000000",
                                          "_c_00000000-0000-4000-8000-000000000000-lease-0000000000",
                                          "\x1b[2J\xe2\x80\xae\xff\xfe"};
    static char padding[70000];
    static const size_t lengths[] = {1, 70, 300, 5000, sizeof padding};
    size_t begin = jute_begin(out);
    switch (dice_below(dice, 6)) {
    case 0: {
        const char *text = foreign[dice_below(dice, sizeof foreign / sizeof *foreign)];
        jute_put(out, text, strlen(text));
        break;
    }
    case 1: /* too long */
        memset(padding, 'A', sizeof padding);
        jute_put(out, padding, lengths[dice_below(dice, 5)]);
        jute_put(out, name, size);
        break;
    case 2: /* cut */
        jute_put(out, name, size ? (size_t)dice_below(dice, (int64_t)size) : 0);
        break;
    case 3: /* another number */
        jute_put(out, name, size);
        for (size_t i = out->used - (size < 10 ? size : 10); i < out->used; i++) {
            out->bytes[i] = (char)('0' + (dice_once_in(dice, 2) ? 0 : dice_below(dice, 10)));
        }
        break;
    case 4: /* a byte of it */
        jute_put(out, name, size);
        if (size) {
            out->bytes[out->used - 1 - (size_t)dice_below(dice, (int64_t)size)] = (char)dice_next(dice);
        }
        break;
    default: /* as a path */
        jute_put(out, name, size);
        jute_put(out, "/", 1);
    }
    jute_end(out, begin);
}

static void put_data(struct jute_out *out, uint64_t *dice, const char *data, size_t size)
{
    static const char *const texts[] = {"", "0", "-1", "999999999999999999", "__REVOKE__", "3", "2", "text"};
    size_t begin = jute_begin(out);
    int64_t roll = dice_below(dice, 4);
    if (roll == 0) { /* large */
        for (int i = 0; i < 100; i++) {
            jute_put(out, "\xff\xfe\0\x1b[2J0123456789", 16);
            jute_put(out, data, size < 1000 ? size : 1000);
        }
    } else if (roll == 1) {
        jute_put(out, data, size ? (size_t)dice_below(dice, (int64_t)size) : 0);
    } else {
        const char *text = texts[dice_below(dice, sizeof texts / sizeof *texts)];
        jute_put(out, text, strlen(text));
    }
    jute_end(out, begin);
}

/* --- lists --------------------------------------------------------------------------------------------------------- */

struct name {
    const char *bytes;
    size_t size;
};

static size_t read_names(struct name *list, const struct fields *fields, const struct frame *frame)
{
    struct jute_in in = {.at = frame->bytes + fields->list_at, .end = frame->bytes + fields->list_end};
    size_t count = 0;
    for (int32_t left = jute_int(&in); left > 0 && count < NAMES_MAX && !in.bad; left--, count++) {
        list[count].bytes = jute_bytes(&in, &list[count].size);
    }
    return count;
}

static void put_list(struct jute_out *out, uint64_t *dice, const struct fields *fields, const struct frame *frame)
{
    struct name list[NAMES_MAX];
    size_t count = read_names(list, fields, frame), first = 0;
    size_t from = count ? (size_t)dice_below(dice, (int64_t)count) : 0;
    int64_t roll = dice_below(dice, 6);
    int32_t extra = 0;
    if (roll == 0) {
        count = 0;
    } else if (roll == 1 && count > 0) { /* one left out */
        list[from] = list[--count];
    } else if (roll == 2 && count > 0) { /* only one */
        first = from;
        count = from + 1;
    } else if (roll == 3 && count > 0) { /* one twice, under another number */
        extra = (int32_t)dice_between(dice, 1, 3);
    } else if (roll == 4) { /* many made up */
        extra = (int32_t)dice_between(dice, 1, 400);
    } else if (count > 1) {
        struct name swap = list[0];
        list[0] = list[from];
        list[from] = swap;
    }
    jute_put_int(out, (int32_t)(count - first) + extra);
    for (size_t i = first; i < count; i++) {
        jute_put_bytes(out, list[i].bytes, list[i].size);
    }
    for (int32_t i = 0; i < extra; i++) {
        put_name(out, dice, count ? list[from].bytes : "", count ? list[from].size : 0);
    }
}

/* A count that is not that of what follows. */
static int32_t other_count(struct liar *liar, uint64_t *dice, int32_t count)
{
    const int32_t others[] = {count - 1, count + 1, count + 3, count + 1000, 1000000, -1, INT32_MIN, 0};
    if (liar->brutal && dice_once_in(dice, 4)) {
        liar->excuse = "a count for which there is no memory";
        return INT32_MAX;
    }
    return others[dice_below(dice, sizeof others / sizeof *others)];
}

/* -1 says that the frame is a watch event: the client library frees the path that such a frame should
 * have. -4 says that it is the reply to credentials: the library reads those, sent or not. A reply that
 * nobody waits for ends the process, by an assertion of the library. */
static int32_t other_xid(struct liar *liar, uint64_t *dice, const struct frame *frame, int32_t xid)
{
    static const int32_t deadly[] = {-1, -4, 12345};
    bool reply = frame->others_wait || xid >= 0;
    int32_t other = -1;
    if (liar->brutal && dice_once_in(dice, 3)) {
        liar->excuse = "a reply that nobody waits for, an event without a path, or one to credentials";
        return deadly[dice_below(dice, 3)];
    }
    while (other == -1 || other == -4) {
        other = reply ? (int32_t)other_number(dice, xid, 4) : dice_once_in(dice, 2) ? -2 : -8;
    }
    return other;
}

/* --- one field ----------------------------------------------------------------------------------------------------- */

static void put_text(struct liar *liar, struct jute_out *out, uint64_t *dice, const struct frame *frame,
                     const struct field *field, bool in_list)
{
    const char *text = frame->bytes + field->at + 4;
    size_t size = field->size - 4;
    if (field->lie == LIE_WELCOME) { /* of a fixed length for the client library */
        jute_put(out, frame->bytes + field->at, field->size);
        for (size_t i = 0; i < size; i++) {
            out->bytes[out->used - 1 - i] = (char)dice_next(dice);
        }
    } else if (field->lie == LIE_DATA) {
        if (dice_once_in(dice, 6)) {
            jute_put_int(out, -1); /* NULL */
        } else {
            put_data(out, dice, text, size);
        }
    } else if (dice_once_in(dice, 8) && (in_list || liar->brutal)) {
        liar->excuse = in_list ? liar->excuse : "a name without a length";
        jute_put_int(out, dice_once_in(dice, 2) ? -1 : (int32_t)(size + 1000000));
        jute_put(out, text, size);
    } else {
        put_name(out, dice, text, size);
    }
}

static void put_field(struct liar *liar, struct jute_out *out, uint64_t *dice, const struct frame *frame,
                      const struct field *field, const struct fields *fields)
{
    struct jute_in in = {.at = frame->bytes + field->at, .end = frame->bytes + field->at + field->size};
    bool in_list = field->at >= fields->list_at && field->at < fields->list_end;
    if (field->form == FIELD_TEXT) {
        put_text(liar, out, dice, frame, field, in_list);
    } else if (field->form == FIELD_BOOL) {
        liar->excuse = field->lie == LIE_WELCOME ? "a welcome that says read-only" : liar->excuse;
        jute_put_number(out, jute_get(&in, 1) ? 0 : 1 + dice_next(dice) % 255, 1);
    } else if (field->form == FIELD_LONG) {
        jute_put_long(out, other_number(dice, jute_long(&in), 8));
    } else if (field->lie == LIE_LIST) {
        jute_put_int(out, other_count(liar, dice, jute_int(&in)));
    } else if (field->lie == LIE_ERROR) {
        jute_put_int(out, other_error(dice, jute_int(&in)));
    } else if (field->lie == LIE_XID) {
        jute_put_int(out, other_xid(liar, dice, frame, jute_int(&in)));
    } else {
        jute_put_int(out, (int32_t)other_number(dice, jute_int(&in), 4));
    }
}

static const struct field *choose_field(uint64_t *dice, const struct fields *fields, enum lie lie)
{
    const struct field *chosen = NULL;
    int64_t seen = 0;
    for (size_t i = 0; i < fields->count; i++) {
        if (fields->all[i].lie == lie && dice_once_in(dice, ++seen)) {
            chosen = &fields->all[i];
        }
    }
    return chosen;
}

/* --- whole frames -------------------------------------------------------------------------------------------------- */

static void put_event(struct liar *liar, struct jute_out *out, uint64_t *dice, const struct frame *frame)
{
    static const int32_t types[] = {1, 2, 3, 3, 4, 4, 2, 0, 99}, states[] = {3, 3, 3, 0, 1, 5, -112, -113, 999};
    size_t begin = jute_begin(out);
    int32_t type = types[dice_below(dice, 9)];
    if (dice_once_in(dice, 5)) {
        type = -1; /* an event of the session */
    }
    jute_put_int(out, -1);
    jute_put_long(out, -1);
    jute_put_int(out, 0);
    jute_put_int(out, type);
    jute_put_int(out, states[dice_below(dice, 9)]);
    if (dice_once_in(dice, 4)) {
        put_name(out, dice, frame->path, strlen(frame->path));
    } else {
        jute_put_bytes(out, frame->path, strlen(frame->path));
    }
    jute_end(out, begin);
    liar->decisive = true;
}

static void put_frame(struct jute_out *out, const struct frame *frame)
{
    size_t begin = jute_begin(out);
    jute_put(out, frame->bytes, frame->size);
    jute_end(out, begin);
}

/* What decides who holds: what is in the queue, and whether the session lives. What a server loses,
 * holds back or repeats does not. */
static bool is_decisive(const struct frame *frame, enum lie lie)
{
    return lie < LIE_DROP && lie != LIE_XID && frame->type != FRAME_OTHER && frame->type != FRAME_SYNC &&
           frame->type != FRAME_DELETE;
}

/* The frame with one field changed, or its list. False: it has none of that kind. */
static bool put_changed(struct liar *liar, struct jute_out *out, uint64_t *dice, const struct frame *frame,
                        enum lie lie)
{
    struct fields fields;
    fields_find(&fields, frame);
    size_t from, to, begin;
    const struct field *field = NULL;
    bool list = lie == LIE_LIST && fields.list_end > 0 && !dice_once_in(dice, 3);
    if (list) {
        from = fields.list_at;
        to = fields.list_end;
    } else if ((field = choose_field(dice, &fields, lie))) {
        from = field->at;
        to = field->at + field->size;
    } else {
        return false;
    }
    begin = jute_begin(out);
    jute_put(out, frame->bytes, from);
    size_t changed = out->used;
    if (list) {
        put_list(out, dice, &fields, frame);
    } else {
        put_field(liar, out, dice, frame, field, &fields);
    }
    fprintf(liar->log, "at %d, %d bytes:", (int)from, (int)(to - from));
    for (size_t i = changed; i < out->used && i < changed + 24; i++) {
        fprintf(liar->log, " %02x", (uint8_t)out->bytes[i]);
    }
    fprintf(liar->log, "\n");
    jute_put(out, frame->bytes + to, frame->size - to);
    jute_end(out, begin);
    if (lie == LIE_MULTI) {
        liar->excuse = "a transaction's reply with other parts than it had";
    }
    return true;
}

static enum fate say_short(struct liar *liar, struct jute_out *out, uint64_t *dice, const struct frame *frame)
{
    struct frame part = *frame;
    part.size = (size_t)dice_below(dice, (int64_t)frame->size);
    put_frame(out, &part);
    liar->excuse = "a frame shorter than its kind";
    return FATE_PASS;
}

/* As other_xid: harmless only while the client waits for another reply. */
static enum fate say_twice(struct liar *liar, const struct frame *frame)
{
    bool harmless = frame->others_wait || frame->type == FRAME_EVENT;
    if (!harmless && !liar->brutal) {
        return FATE_PASS;
    }
    liar->excuse = harmless ? liar->excuse : "a reply that nobody waits for";
    return FATE_TWICE;
}

static enum fate say(struct liar *liar, struct jute_out *out, uint64_t *dice, const struct frame *frame, enum lie lie)
{
    switch (lie) {
    case LIE_DROP:
        return FATE_DROP;
    case LIE_DELAY:
        return FATE_DELAY;
    case LIE_CUT:
        return FATE_CUT;
    case LIE_REORDER:
        return frame->others_wait || frame->type == FRAME_EVENT ? FATE_BEHIND : FATE_PASS;
    case LIE_REPEAT:
        return say_twice(liar, frame);
    case LIE_SHORT:
        return liar->brutal && frame->type != FRAME_WELCOME && frame->size > 0 ? say_short(liar, out, dice, frame)
                                                                               : FATE_PASS;
    case LIE_EVENT:
        if (frame->type != FRAME_EVENT && frame->type != FRAME_WELCOME && frame->path[0]) {
            put_event(liar, out, dice, frame);
            return FATE_PASS;
        }
        break;
    default:
        break;
    }
    if ((lie == LIE_MULTI && !liar->brutal) || !put_changed(liar, out, dice, frame, lie)) {
        return FATE_PASS;
    }
    liar->decisive = liar->decisive || is_decisive(frame, lie);
    return FATE_DROP; /* in its stead */
}

/* --- the liar ------------------------------------------------------------------------------------------------------ */

void liar_begin(struct liar *liar, uint64_t seed, FILE *log)
{
    static const int rates[] = {2, 3, 5, 8, 15, 40};
    uint64_t dice = dice_mix(seed ^ 0x6c696172);
    *liar = (struct liar){.seed = seed, .log = log};
    liar->one_in = rates[dice_below(&dice, 6)];
    liar->brutal = dice_once_in(&dice, 16);
    /* few kinds at a time, so that one does not hide what another would find */
    for (int i = (int)dice_between(&dice, 1, 4); i > 0; i--) {
        liar->kinds |= 1u << dice_between(&dice, 1, LIES - 1);
    }
    if (dice_once_in(&dice, 6)) {
        liar->kinds = ~0u;
    }
}

static uint64_t dice_of(const struct liar *liar, const struct frame *frame)
{
    return dice_at(liar->seed, frame->connection, frame->number);
}

int liar_delay_ms(const struct liar *liar, const struct frame *frame)
{
    uint64_t dice = dice_of(liar, frame) ^ 1;
    return (int)(dice_once_in(&dice, 4) ? dice_between(&dice, 500, 1500) : dice_between(&dice, 5, 150));
}

enum fate liar_say(struct liar *liar, const struct frame *frame, struct jute_out *out)
{
    uint64_t dice = dice_of(liar, frame);
    enum lie lie = (enum lie)dice_between(&dice, 1, LIES - 1);
    if (!liar->one_in || !dice_once_in(&dice, liar->one_in)) {
        put_frame(out, frame);
        return FATE_PASS;
    }
    while (!(liar->kinds & 1u << lie)) {
        lie = (enum lie)dice_between(&dice, 1, LIES - 1);
    }
    size_t before = out->used;
    enum fate fate = say(liar, out, &dice, frame, lie);
    bool changed = out->used != before;
    if (fate != FATE_PASS || changed) {
        liar->told[lie]++;
        fprintf(liar->log, "lie: connection %d, frame %d, reply to %d: %s\n", (int)frame->connection,
                (int)frame->number, (int)frame->type, names[lie]);
    }
    if (fate == FATE_DROP && changed) {
        return FATE_PASS;
    }
    if (fate != FATE_DROP && lie != LIE_SHORT) {
        put_frame(out, frame);
    }
    return fate;
}
