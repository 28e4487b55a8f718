#include "store_client.h"

#include <string.h>

#define PATIENCE_MS 30000

int client_open(struct client *client, const struct zkl__store_config *config)
{
    struct zkl__store_config full = *config;
    const struct zkl__store_ops *ops = zkl__store_find(full.servers, NULL);
    int code = ZKL_EINVAL;
    if (!full.heap.alloc) {
        full.heap = recorder_config(full.servers).heap;
    }
    *client = (struct client){.recorder = ops ? recorder_open(ops, &full, &code, NULL) : NULL};
    if (!client->recorder) {
        return code;
    }
    const struct record *first = client_next(client);
    client->session_id = first ? first->connection.session_id : 0;
    return first && first->kind == RECORD_CONNECTED ? ZKL_OK : ZKL_ECONNECT;
}

int client_open_plain(struct client *client, const char *servers)
{
    struct zkl__store_config config = recorder_config(servers);
    return client_open(client, &config);
}

int client_close(struct client *client)
{
    int code = recorder_close(client->recorder, PATIENCE_MS);
    recorder_free(client->recorder);
    return code;
}

const struct record *client_next(struct client *client)
{
    const struct record *record = recorder_at(client->recorder, client->seen, PATIENCE_MS);
    client->seen += record != NULL;
    return record;
}

bool client_quiet(struct client *client)
{
    return recorder_at(client->recorder, client->seen, 0) == NULL;
}

void client_drain(struct client *client)
{
    uint64_t last = client_send(client, op_read(ZKL__OP_SYNC, "/", false));
    const struct record *record;
    do {
        record = client_next(client);
    } while (record && !(record->kind == RECORD_REPLY && record->id == last));
}

const struct zkl__reply *client_call(struct client *client, struct zkl__op op)
{
    return &recorder_do(client->recorder, &op)->reply;
}

enum zkl__rc client_rc(struct client *client, struct zkl__op op)
{
    return client_call(client, op)->rc;
}

uint64_t client_send(struct client *client, struct zkl__op op)
{
    return recorder_submit(client->recorder, &op, NULL);
}

int client_try(struct client *client, struct zkl__op op)
{
    int code;
    recorder_submit(client->recorder, &op, &code);
    return code;
}

/* --- ops in one line ---------------------------------------------------------------------------------------------- */

struct zkl__op op_create(const char *path, const char *text, enum zkl__create_mode mode)
{
    return (struct zkl__op){
        .kind = ZKL__OP_CREATE, .dir = path, .data = text, .size = text ? strlen(text) : 0, .mode = mode};
}

struct zkl__op op_delete(const char *path, int32_t version)
{
    return (struct zkl__op){.kind = ZKL__OP_DELETE, .dir = path, .version = version};
}

struct zkl__op op_set(const char *path, const char *text, int32_t version)
{
    return (struct zkl__op){
        .kind = ZKL__OP_SET, .dir = path, .data = text, .size = text ? strlen(text) : 0, .version = version};
}

struct zkl__op op_check(const char *path, int32_t version)
{
    return (struct zkl__op){.kind = ZKL__OP_CHECK, .dir = path, .version = version};
}

struct zkl__op op_read(enum zkl__op_kind kind, const char *path, bool watch)
{
    return (struct zkl__op){.kind = kind, .dir = path, .watch = watch};
}

struct zkl__op op_multi(const struct zkl__op *parts, size_t count)
{
    return (struct zkl__op){.kind = ZKL__OP_MULTI, .parts = parts, .part_count = count};
}
