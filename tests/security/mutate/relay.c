#include "relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dice.h"
#include "wait.h"

#define SENT_MAX 1024
#define PATHS 8
#define PATH_BYTES 1100
#define BACKLOG_MAX (1 << 20) /* a frame longer than that, or a reader slower: the connection ends */

struct relay_link {
    int client, server;
    struct jute_out up, down; /* what came, and is not yet a whole frame */
    struct jute_out out;      /* for the client */
    struct jute_out behind;   /* for the client, behind the next frame */
    int64_t held_until_ms;
    bool asked, welcomed, ending;
    bool plain; /* a four-letter command, whose reply is text */
    struct {
        int32_t xid, type;
    } sent[SENT_MAX]; /* requests without a reply; the oldest first */
    size_t sent_count;
    char paths[PATHS][PATH_BYTES];
    size_t path_count;
    uint64_t number, frames;
};

/* --- sockets ------------------------------------------------------------------------------------------------------- */

static struct sockaddr_in loopback(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

bool relay_open(struct relay *relay, int to_port)
{
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    *relay = (struct relay){.to_port = to_port};
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(relay->listener, (struct sockaddr *)&address, size) != 0 || listen(relay->listener, 16) != 0 ||
        getsockname(relay->listener, (struct sockaddr *)&address, &size) != 0) {
        perror("relay");
        return false;
    }
    relay->port = ntohs(address.sin_port);
    return true;
}

static void link_free(struct relay_link **link)
{
    close((*link)->client);
    close((*link)->server);
    free((*link)->up.bytes);
    free((*link)->down.bytes);
    free((*link)->out.bytes);
    free((*link)->behind.bytes);
    free(*link);
    *link = NULL;
}

void relay_close(struct relay *relay)
{
    for (int i = 0; i < RELAY_LINKS; i++) {
        if (relay->links[i]) {
            link_free(&relay->links[i]);
        }
    }
    close(relay->listener);
}

static void accept_client(struct relay *relay)
{
    struct sockaddr_in server = loopback(relay->to_port);
    int client = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC);
    int i = 0;
    while (i < RELAY_LINKS && relay->links[i]) {
        i++;
    }
    if (client < 0 || i == RELAY_LINKS) {
        close(client);
        return;
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&server, sizeof server) != 0) {
        close(fd);
        close(client);
        return;
    }
    relay->links[i] = calloc(1, sizeof *relay->links[i]);
    relay->links[i]->client = client;
    relay->links[i]->server = fd;
    relay->links[i]->number = ++relay->link_count;
}

static void flush(struct relay_link *link)
{
    if (link->out.used == 0 || now_ms() < link->held_until_ms) {
        return;
    }
    ssize_t put = send(link->client, link->out.bytes, link->out.used, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno != EAGAIN && errno != EINTR) {
        link->ending = true;
        link->out.used = 0;
    } else if (put > 0) {
        memmove(link->out.bytes, link->out.bytes + put, link->out.used - (size_t)put);
        link->out.used -= (size_t)put;
    }
}

/* --- frames -------------------------------------------------------------------------------------------------------- */

static void note_request(struct relay_link *link, char *bytes, size_t size)
{
    struct jute_in in = {.at = bytes, .end = bytes + size};
    if (!link->asked) {
        link->asked = true; /* for a session */
        return;
    }
    int32_t xid = jute_int(&in), type = jute_int(&in);
    if (xid >= 0 && link->sent_count < SENT_MAX) {
        link->sent[link->sent_count].xid = xid;
        link->sent[link->sent_count++].type = type;
    }
    size_t length = 0;
    const char *path = type == FRAME_MULTI ? "" : jute_bytes(&in, &length);
    if (xid >= 0 && !in.bad && length > 0 && length < PATH_BYTES && path[0] == '/') {
        char *kept = link->paths[link->path_count++ % PATHS];
        memcpy(kept, path, length);
        kept[length] = '\0';
    }
}

static enum frame_type type_of(struct relay_link *link, int32_t xid)
{
    if (xid == -1) {
        return FRAME_EVENT;
    }
    for (size_t i = 0; i < link->sent_count; i++) {
        if (link->sent[i].xid == xid) {
            int32_t type = link->sent[i].type;
            link->sent_count -= i + 1;
            memmove(link->sent, link->sent + i + 1, link->sent_count * sizeof *link->sent);
            return type > 0 ? (enum frame_type)type : FRAME_OTHER;
        }
    }
    return FRAME_OTHER;
}

static void say(struct relay *relay, struct relay_link *link, const struct frame *frame)
{
    struct jute_out said = {0};
    enum fate fate = liar_say(&relay->liar, frame, &said);
    if (fate == FATE_BEHIND) {
        jute_put(&link->behind, said.bytes, said.used);
        said.used = 0;
    } else if (fate == FATE_DELAY) {
        link->held_until_ms = now_ms() + liar_delay_ms(&relay->liar, frame);
    } else if (fate == FATE_CUT) {
        said.used /= 2;
        link->behind.used = 0; /* else it would end this frame */
        link->ending = true;
    }
    for (int times = fate == FATE_DROP ? 0 : fate == FATE_TWICE ? 2 : 1; times > 0; times--) {
        jute_put(&link->out, said.bytes, said.used);
    }
    if (fate != FATE_BEHIND && link->behind.used > 0) {
        jute_put(&link->out, link->behind.bytes, link->behind.used);
        link->behind.used = 0;
    }
    free(said.bytes);
    flush(link);
}

static void pass_reply(struct relay *relay, struct relay_link *link, char *bytes, size_t size)
{
    struct jute_in in = {.at = bytes, .end = bytes + size};
    struct frame frame = {.bytes = bytes, .size = size, .connection = link->number, .number = ++link->frames};
    uint64_t dice = dice_at(relay->liar.seed, link->number + 1000, frame.number);
    frame.type = link->welcomed ? type_of(link, jute_int(&in)) : FRAME_WELCOME;
    frame.others_wait = link->sent_count > 0;
    size_t known = link->path_count < PATHS ? link->path_count : PATHS;
    frame.path = known ? link->paths[dice_below(&dice, (int64_t)known)] : "";
    link->welcomed = true;
    say(relay, link, &frame);
}

/* The reply to a four-letter command: now and then with other bytes, or cut. */
static void pass_text(struct relay *relay, struct relay_link *link, char *bytes, size_t size)
{
    uint64_t dice = dice_at(relay->liar.seed, link->number + 2000, ++link->frames);
    if (relay->liar.one_in && dice_once_in(&dice, relay->liar.one_in)) {
        relay->liar.told[LIE_DATA]++;
        for (int i = 0; size > 0 && i < 8; i++) {
            bytes[dice_below(&dice, (int64_t)size)] = (char)dice_next(&dice);
        }
        size = dice_once_in(&dice, 3) ? (size_t)dice_below(&dice, (int64_t)size + 1) : size;
    }
    jute_put(&link->out, bytes, size);
    flush(link);
}

/* Takes whole frames off what came. */
static void take_frames(struct relay *relay, struct relay_link *link, struct jute_out *from, bool requests)
{
    size_t at = 0;
    while (from->used - at >= 4 && !link->ending) {
        struct jute_in in = {.at = from->bytes + at, .end = from->bytes + from->used};
        int32_t length = jute_int(&in);
        if (length < 0 || length > BACKLOG_MAX || (size_t)(in.end - in.at) < (size_t)length) {
            link->ending = length < 0 || length > BACKLOG_MAX;
            break;
        }
        at += 4 + (size_t)length;
        if (requests) {
            relay->requests++;
            note_request(link, in.at, (size_t)length);
        } else {
            pass_reply(relay, link, in.at, (size_t)length);
        }
    }
    memmove(from->bytes, from->bytes + at, from->used - at);
    from->used -= at;
}

static void read_side(struct relay *relay, struct relay_link *link, bool requests)
{
    char bytes[65536];
    ssize_t got = recv(requests ? link->client : link->server, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) {
        link->ending = link->ending || got == 0 || (errno != EAGAIN && errno != EINTR);
        return;
    }
    link->plain = link->plain || (requests && !link->asked && got >= 4 && bytes[0] >= 'a');
    if (link->plain && !requests) {
        pass_text(relay, link, bytes, (size_t)got);
        return;
    }
    struct jute_out *into = requests ? &link->up : &link->down;
    jute_put(into, bytes, (size_t)got);
    if (requests && send(link->server, bytes, (size_t)got, MSG_NOSIGNAL) != got) {
        link->ending = true;
    }
    if (!link->plain) {
        take_frames(relay, link, into, requests);
    }
}

/* --- steps --------------------------------------------------------------------------------------------------------- */

void relay_watch(const struct relay *relay, struct pollfd *fds)
{
    fds[0] = (struct pollfd){.fd = relay->listener, .events = POLLIN};
    for (int i = 0; i < RELAY_LINKS; i++) {
        const struct relay_link *link = relay->links[i];
        fds[1 + 2 * i] = (struct pollfd){.fd = link ? link->client : -1, .events = POLLIN};
        fds[2 + 2 * i] = (struct pollfd){.fd = link ? link->server : -1, .events = POLLIN};
    }
}

void relay_step(struct relay *relay, const struct pollfd *fds)
{
    for (int i = 0; i < RELAY_LINKS; i++) {
        struct relay_link *link = relay->links[i];
        if (link && fds[1 + 2 * i].revents) {
            read_side(relay, link, true);
        }
        if (link && fds[2 + 2 * i].revents) {
            read_side(relay, link, false);
        }
        if (link) {
            flush(link);
        }
        if (link && link->ending && now_ms() >= link->held_until_ms) {
            link_free(&relay->links[i]);
        }
    }
    if (fds[0].revents) {
        accept_client(relay);
    }
}
