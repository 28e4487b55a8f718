#include "sasl.h"

#include <dlfcn.h>
#include <string.h>

/* Of sasl/sasl.h, whose library comes with a ZooKeeper client library that has SASL, and is not
 * needed to build this one. */
enum {
    SASL_OK = 0,
    SASL_FAIL = -1,
    SASL_CB_USER = 0x4001,
    SASL_CB_AUTHNAME = 0x4002,
    SASL_CB_PASS = 0x4004
};

struct sasl_callback {
    unsigned long id;
    void (*function)(void); /* each of another type, by id */
    void *context;
};

struct sasl_secret {
    unsigned long length;
    unsigned char data[1];
};

#define PART_MAX 256

/* One process, one identity. */
static struct {
    char user[PART_MAX], service[PART_MAX], host[PART_MAX];
    union {
        struct sasl_secret head;
        unsigned char bytes[sizeof(struct sasl_secret) + PART_MAX];
    } password;
} own;

static int give_user(void *context, int id, const char **result, unsigned *length)
{
    (void)context;
    /* Whom to act as is left open: the servers take the authenticated user. */
    *result = id == SASL_CB_AUTHNAME ? own.user : "";
    if (length) {
        *length = (unsigned)strlen(*result);
    }
    return SASL_OK;
}

static int give_password(void *connection, void *context, int id, struct sasl_secret **secret)
{
    (void)connection;
    (void)context;
    (void)id;
    *secret = &own.password.head;
    return own.password.head.length > 0 ? SASL_OK : SASL_FAIL;
}

static const struct sasl_callback callbacks[] = {
    {SASL_CB_USER, (void (*)(void))give_user, NULL},
    {SASL_CB_AUTHNAME, (void (*)(void))give_user, NULL},
    {SASL_CB_PASS, (void (*)(void))give_password, NULL},
    {0, NULL, NULL},
};

static bool take_password(const struct cli *cli, const char *secret)
{
    const char *colon = secret ? strchr(secret, ':') : NULL;
    if (!secret) {
        return true;
    }
    size_t user = colon ? (size_t)(colon - secret) : 0, length = colon ? strlen(colon + 1) : 0;
    if (user == 0 || length == 0 || user >= PART_MAX || length >= PART_MAX) {
        cli_error("--auth-file %s: want one line, sasl:USER:PASSWORD, each of %d bytes at most",
                  cli->auth_file, PART_MAX - 1);
        return false;
    }
    memcpy(own.user, secret, user);
    memcpy(own.password.bytes + offsetof(struct sasl_secret, data), colon + 1, length + 1);
    own.password.head.length = length;
    return true;
}

/* --sasl-server [SERVICE/]HOST. By default what Java's servers have: DIGEST-MD5 knows them all by
 * one name (SecurityUtils.createSaslServer, "zk-sasl-md5"), Kerberos the first one by its own. */
static bool name_server(const struct cli *cli)
{
    const char *given = cli->sasl_server, *slash = given ? strchr(given, '/') : NULL;
    const char *host = slash ? slash + 1 : given;
    size_t service = slash ? (size_t)(slash - given) : 0;
    size_t length = given ? strlen(host) : strcspn(cli->servers, ":,/");
    if (!given) {
        bool digest = strcmp(cli->sasl, "DIGEST-MD5") == 0;
        host = digest ? "zk-sasl-md5" : cli->servers;
        length = digest ? strlen(host) : length;
    }
    if (length == 0 || length >= PART_MAX || service >= PART_MAX || (slash && service == 0)) {
        cli_error("--sasl-server: write [SERVICE/]HOST, as in zookeeper/zk.example.org");
        return false;
    }
    memcpy(own.host, host, length);
    if (slash) {
        memcpy(own.service, given, service);
    }
    return true;
}

bool cli_sasl(const struct cli *cli, const char *secret, zkl_sasl *sasl)
{
    int (*begin)(const struct sasl_callback *);
    void *found = dlsym(RTLD_DEFAULT, "sasl_client_init");
    memcpy(&begin, &found, sizeof begin);
    if (!name_server(cli) || !take_password(cli, secret)) {
        return false;
    }
    if (begin && begin(NULL) != SASL_OK) { /* without it the session is refused, with the remedy */
        cli_error(
            "--sasl %s: Cyrus SASL does not start; are its plug-ins installed (libsasl2-modules)?",
            cli->sasl);
        return false;
    }
    *sasl = (zkl_sasl){.mechanisms = cli->sasl,
                       .service = own.service[0] ? own.service : NULL,
                       .host = own.host,
                       .callbacks = callbacks};
    return true;
}
