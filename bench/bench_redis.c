/* bench_redis HOST:PORT INTERVAL_MS: the lock that people make of Redis: SET NX PX, tried again
 * every INTERVAL_MS, and a delete if it is still ours. No queue, no order, and a time to live that
 * somebody has to guess. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

struct client {
    redisContext *redis;
    const char *key;
    char owner[64];
};

static const char *const delete_ours =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/* Whether the answer is neither nil nor 0. */
static bool yes(struct client *c, redisReply *reply)
{
    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        die("redis: %s", reply ? reply->str : c->redis->errstr);
    }
    bool is = reply->type == REDIS_REPLY_STATUS ||
              (reply->type == REDIS_REPLY_INTEGER && reply->integer != 0);
    freeReplyObject(reply);
    return is;
}

static bool redis_acquire(void *contender)
{
    struct client *c = contender;
    return yes(c, redisCommand(c->redis, "SET %s %s NX PX 30000", c->key, c->owner));
}

static void redis_release(void *contender)
{
    struct client *c = contender;
    if (!yes(c, redisCommand(c->redis, "EVAL %s 1 %s %s", delete_ours, c->key, c->owner))) {
        die("redis: the lock was not ours any more");
    }
}

static void *redis_open(const struct job *job, int number)
{
    struct client *c = allocate(1, sizeof *c);
    char host[64] = "";
    int port = 0;
    if (sscanf(job->servers, "%63[^:]:%d", host, &port) != 2 || !job->option) {
        die("usage: bench_redis HOST:PORT INTERVAL_MS");
    }
    c->redis = redisConnect(host, port);
    if (!c->redis || c->redis->err) {
        die("redis: %s: %s", job->servers, c->redis ? c->redis->errstr : "no memory");
    }
    c->key = job->path;
    snprintf(c->owner, sizeof c->owner, "%d-%d", (int)getpid(), number);
    return c;
}

static void redis_close(void *contender)
{
    struct client *c = contender;
    redisFree(c->redis);
    free(c);
}

const struct driver driver = {
    .open = redis_open, .acquire = redis_acquire, .release = redis_release, .close = redis_close};
