#include "contender.h"

#include "dice.h"

#define PATIENCE 5000 /* ms: of one try to join */

struct member {
    char path[HISTORY_WORD];
    zkl_group *group;
    zkl_group_observer *watcher;
    uint64_t dice;
};

static void note(const struct member *m, enum history_op op, const char *result)
{
    history_write(process.record, &(struct history_line){.client = process.name,
                                                         .session = zkl_session_id(process.session),
                                                         .op = op,
                                                         .path = m->path,
                                                         .result = result});
}

/* "p0-0+p1-3+p2-1". Those that were killed are in it for a while: what does not fit is cut, and is no list of the living. */
static void on_changed(zkl_group_observer *watcher, const char *const *ids, size_t count, void *payload)
{
    char text[HISTORY_WORD] = "";
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? "+" : "", ids[i]);
    }
    note(payload, HISTORY_listed, count > 0 ? text : NULL);
}

/* For a while, long enough to lose a session or two in it, or not; when all is calm, to the end. True: a moment has passed. */
static bool stays(int64_t end, enum page_part part)
{
    if (process.page->calm) {
        atomic_fetch_or(&process.page->settled[process.number], part);
    }
    poll(NULL, 0, 10);
    return !process.enough && (process.page->calm || now_ms() < end);
}

static void join_and_leave(struct member *m)
{
    if (zkl_group_join(m->group, PATIENCE, NULL) == ZKL_OK) {
        note(m, HISTORY_joined, NULL);
        int64_t end = now_ms() + (dice_once_in(&m->dice, 3) ? 60000 : dice_between(&m->dice, 100, 4000));
        while (stays(end, PAGE_MEMBER)) {
        }
        note(m, HISTORY_left, NULL);
        zkl_group_leave(m->group, NULL);
    }
}

void *member_run(void *seed)
{
    struct member m = {.dice = *(uint64_t *)seed};
    zkl_error err;
    snprintf(m.path, sizeof m.path, "%.40s/g", process.root);
    if (zkl_group_new(&m.group, process.session, m.path, process.name, NULL, &err) != ZKL_OK ||
        zkl_group_observe(&m.watcher, process.session, m.path, on_changed, &m, &err) != ZKL_OK) {
        process_give_up(m.path, &err);
    }
    while (!process.enough) {
        join_and_leave(&m);
    }
    zkl_group_observer_free(m.watcher);
    zkl_group_free(m.group);
    return NULL;
}

/* --- pieces of a partition ---------------------------------------------------------------------------------------------- */

struct pieces {
    char names[PIECES][8]; /* "q0" */
    struct piece {
        char client[HISTORY_WORD],
            path[HISTORY_WORD]; /* in the history each piece is a lock, and has a client of its own here */
        atomic_uint turn;       /* odd: it is ours; another number each time */
    } all[PIECES];
    zkl_partition *partition;
    uint64_t dice;
};

static void note_piece(const struct piece *piece, const struct history_line *line)
{
    struct history_line whole = *line;
    whole.client = piece->client;
    whole.path = piece->path;
    whole.session = zkl_session_id(process.session);
    history_write(process.record, &whole);
}

/* --- what the partition tells ---------------------------------------------------------------------------------------- */

static void on_assigned(zkl_partition *partition, const char *name, int64_t token, void *payload)
{
    struct pieces *p = payload;
    struct piece *piece = &p->all[atoi(name + 1)];
    note_piece(piece, &(struct history_line){.op = HISTORY_acquire});
    int64_t now = boot_ns(), lease = zkl_partition_owns(partition, name) ? now + 1 : now; /* how long is not told */
    note_piece(piece,
               &(struct history_line){
                   .at = now, .op = HISTORY_done, .result = zkl_error_name(ZKL_OK), .token = token, .lease = lease});
    piece->turn++;
}

static void on_revoked(zkl_partition *partition, const char *name, bool lost, void *payload)
{
    struct pieces *p = payload;
    struct piece *piece = &p->all[atoi(name + 1)];
    piece->turn++;
    note_piece(piece, &(struct history_line){.op = HISTORY_release, .result = lost ? "lost" : NULL});
}

/* --- what its owner sees --------------------------------------------------------------------------------------------- */

/* It was ours when the time was read, if it was so before and is still, in the same turn. */
static void look_at_piece(struct pieces *p, int number)
{
    struct piece *piece = &p->all[number];
    unsigned turn = piece->turn;
    int64_t now = boot_ns();
    if (turn % 2 == 1 && zkl_partition_owns(p->partition, p->names[number]) && piece->turn == turn) {
        note_piece(piece, &(struct history_line){.at = now, .op = HISTORY_held, .lease = now});
    }
}

static void stay_owner(struct pieces *p)
{
    int64_t end = now_ms() + (dice_once_in(&p->dice, 3) ? 60000 : dice_between(&p->dice, 500, 6000));
    while (stays(end, PAGE_PIECES)) {
        for (int i = 0; i < PIECES; i++) {
            look_at_piece(p, i);
        }
    }
}

static void make_partition(struct pieces *p)
{
    zkl_partition_options options = ZKL_PARTITION_OPTIONS_INIT;
    const char *names[PIECES];
    char path[HISTORY_WORD];
    zkl_error err;
    for (int i = 0; i < PIECES; i++) {
        snprintf(p->names[i], sizeof p->names[i], "q%d", i);
        names[i] = p->names[i];
        snprintf(p->all[i].client, HISTORY_WORD, "%.30s.q%d", process.name, i);
        pieces_path(p->all[i].path, process.root, i);
    }
    options.assigned_fn = on_assigned;
    options.revoked_fn = on_revoked;
    options.payload = p;
    snprintf(path, sizeof path, "%.40s/p", process.root);
    if (zkl_partition_new(&p->partition, process.session, path, names, PIECES, &options, &err) != ZKL_OK) {
        process_give_up(path, &err);
    }
}

void *pieces_run(void *seed)
{
    struct pieces p = {.dice = *(uint64_t *)seed};
    make_partition(&p);
    while (!process.enough) {
        zkl_error err;
        if (zkl_partition_start(p.partition, &err) != ZKL_OK) {
            process_give_up("partition", &err);
        }
        stay_owner(&p);
        zkl_partition_stop(p.partition, NULL);
    }
    zkl_partition_free(p.partition);
    return NULL;
}
