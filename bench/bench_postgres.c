/* bench_postgres CONNINFO INTERVAL_MS: the lock that people make of a table: a row taken when it is
 * not there or has run out, tried again every INTERVAL_MS. No queue, no order, and a time to live
 * that somebody has to guess. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

struct client {
    PGconn *database;
    const char *key;
    char owner[64];
};

/* Rows that it touched. */
static int execute(struct client *c, PGresult *result)
{
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        die("postgres: %s", PQerrorMessage(c->database));
    }
    int rows = atoi(PQcmdTuples(result));
    PQclear(result);
    return rows;
}

static int execute_prepared(struct client *c, const char *name)
{
    const char *values[] = {c->key, c->owner};
    return execute(c, PQexecPrepared(c->database, name, 2, values, NULL, NULL, 0));
}

static bool postgres_acquire(void *contender)
{
    return execute_prepared(contender, "take") == 1;
}

static void postgres_release(void *contender)
{
    if (execute_prepared(contender, "give") != 1) {
        die("postgres: the lock was not ours any more");
    }
}

static void *postgres_open(const struct job *job, int number)
{
    struct client *c = allocate(1, sizeof *c);
    if (!job->option) {
        die("usage: bench_postgres CONNINFO INTERVAL_MS");
    }
    c->database = PQconnectdb(job->servers);
    if (PQstatus(c->database) != CONNECTION_OK) {
        die("postgres: %s", PQerrorMessage(c->database));
    }
    c->key = job->path;
    snprintf(c->owner, sizeof c->owner, "%d-%d", (int)getpid(), number);
    execute(c, PQexec(c->database, "SET client_min_messages = warning"));
    if (number == 0) {
        execute(c, PQexec(c->database, "CREATE TABLE IF NOT EXISTS locks (name text PRIMARY KEY, "
                                       "owner text, until timestamptz)"));
    }
    execute(c, PQprepare(
                   c->database, "take",
                   "INSERT INTO locks VALUES ($1, $2, now() + '30 s') ON CONFLICT (name) DO UPDATE "
                   "SET owner = excluded.owner, until = excluded.until WHERE locks.until < now()",
                   2, NULL));
    execute(c, PQprepare(c->database, "give", "DELETE FROM locks WHERE name = $1 AND owner = $2", 2,
                         NULL));
    return c;
}

static void postgres_close(void *contender)
{
    struct client *c = contender;
    PQfinish(c->database);
    free(c);
}

const struct driver driver = {.open = postgres_open,
                              .acquire = postgres_acquire,
                              .release = postgres_release,
                              .close = postgres_close};
