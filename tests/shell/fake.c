#include "fake_inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wait.h"

/* --- output; with the mutex --------------------------------------------------------------------------------------- */

void fake_link_flush(struct link *link)
{
    if (link->fd < 0 || now_ms() < link->held_until_ms) {
        return;
    }
    size_t sent = 0;
    while (sent < link->out.used) {
        ssize_t got = send(link->fd, link->out.bytes + sent, link->out.used - sent, MSG_NOSIGNAL);
        if (got <= 0) {
            break; /* its reader sees the end */
        }
        sent += (size_t)got;
    }
    link->out.used = 0;
}

void fake_link_cut(struct link *link)
{
    if (link && link->fd >= 0) {
        link->out.used = 0;
        link->held_until_ms = 0;
        shutdown(link->fd, SHUT_RDWR);
    }
}

size_t fake_link_begin(struct fake *fake, struct link *link, int32_t xid, int32_t err)
{
    size_t begin = jute_begin(&link->out);
    jute_put_int(&link->out, xid);
    jute_put_long(&link->out, atomic_load(&fake->zxid));
    jute_put_int(&link->out, err);
    return begin;
}

void fake_link_plain(struct fake *fake, struct link *link, int32_t xid)
{
    jute_end(&link->out, fake_link_begin(fake, link, xid, 0));
    fake_link_flush(link);
}

/* --- connections -------------------------------------------------------------------------------------------------- */

static void drop_link(struct fake *fake, struct link *link)
{
    pthread_mutex_lock(&fake->mutex);
    if (link->session) {
        link->session->link = NULL;
    }
    close(link->fd);
    free(link->in.bytes);
    free(link->out.bytes);
    *link = (struct link){.fd = -1};
    pthread_mutex_unlock(&fake->mutex);
}

/* Takes whole frames off the input. */
static void eat(struct fake *fake, struct link *link)
{
    size_t at = 0;
    while (link->in.used - at >= 4) {
        struct jute_in in = {.at = link->in.bytes + at, .end = link->in.bytes + link->in.used};
        int32_t length = jute_int(&in);
        if (length < 0 || (size_t)(in.end - in.at) < (size_t)length) {
            break;
        }
        in.end = in.at + length;
        at += 4 + (size_t)length;
        (link->session ? fake_session_serve : fake_session_meet)(fake, link, &in);
    }
    memmove(link->in.bytes, link->in.bytes + at, link->in.used - at);
    link->in.used -= at;
}

static void read_link(struct fake *fake, struct link *link)
{
    char bytes[8192];
    ssize_t got = recv(link->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0) {
        jute_put(&link->in, bytes, (size_t)got);
        eat(fake, link);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        drop_link(fake, link);
    }
}

/* As ZooKeeper's servers (NIOServerCnxn): a reply must not wait for the acknowledgement of the one before it. */
static void accept_link(struct fake *fake)
{
    int one = 1, fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* of -1: refused */
    for (int i = 0; fd >= 0 && i < LINKS_MAX; i++) {
        if (fake->links[i].fd < 0) {
            pthread_mutex_lock(&fake->mutex);
            fake->links[i] = (struct link){.fd = fd, .number = ++fake->link_count};
            pthread_mutex_unlock(&fake->mutex);
            return;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void *run(void *arg)
{
    struct fake *fake = arg;
    while (!atomic_load(&fake->stop)) {
        struct pollfd fds[LINKS_MAX + 2] = {{.fd = fake->listener, .events = POLLIN},
                                            {.fd = fake->wake, .events = POLLIN}};
        for (int i = 0; i < LINKS_MAX; i++) {
            fds[2 + i] = (struct pollfd){.fd = fake->links[i].fd, .events = POLLIN};
        }
        poll(fds, LINKS_MAX + 2, 10); /* what is held is looked at now and then */
        for (int i = 0; i < LINKS_MAX; i++) {
            if (fds[2 + i].fd >= 0 && fds[2 + i].revents) {
                read_link(fake, &fake->links[i]);
            }
            pthread_mutex_lock(&fake->mutex);
            fake_link_flush(&fake->links[i]);
            pthread_mutex_unlock(&fake->mutex);
        }
        if (fds[1].revents) {
            uint64_t count;
            (void)!read(fake->wake, &count, sizeof count);
        }
        fake_session_bury(fake);
        if (fds[0].revents) {
            accept_link(fake);
        }
    }
    return NULL;
}

void fake_wake(struct fake *fake)
{
    uint64_t one = 1;
    if (write(fake->wake, &one, sizeof one) != sizeof one) {
        abort();
    }
}

/* --- whole -------------------------------------------------------------------------------------------------------- */

struct fake *fake_start(const char *tree, fake_fate_fn fate_fn, void *payload)
{
    struct fake *fake = calloc(1, sizeof *fake);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    snprintf(fake->tree, sizeof fake->tree, "%s", tree);
    fake->fate_fn = fate_fn;
    fake->payload = payload;
    atomic_store(&fake->zxid, 1);
    pthread_mutex_init(&fake->mutex, NULL);
    for (int i = 0; i < LINKS_MAX; i++) {
        fake->links[i].fd = -1;
    }
    fake->wake = eventfd(0, EFD_CLOEXEC);
    fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fake->listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(fake->listener, 16) != 0 ||
        getsockname(fake->listener, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&fake->thread, NULL, run, fake) != 0) {
        perror("fake");
        abort();
    }
    snprintf(fake->address, sizeof fake->address, "127.0.0.1:%d", (int)ntohs(address.sin_port));
    return fake;
}

void fake_stop(struct fake *fake)
{
    atomic_store(&fake->stop, true);
    fake_wake(fake);
    pthread_join(fake->thread, NULL);
    for (int i = 0; i < LINKS_MAX; i++) {
        if (fake->links[i].fd >= 0) {
            drop_link(fake, &fake->links[i]);
        }
    }
    for (int i = 0; i < fake->session_count; i++) {
        fake_session_free(fake->sessions[i]);
    }
    close(fake->listener);
    close(fake->wake);
    pthread_mutex_destroy(&fake->mutex);
    free(fake);
}

void fake_set_timeout(struct fake *fake, int32_t timeout_ms)
{
    atomic_store(&fake->timeout_ms, timeout_ms);
}

void fake_refuse_auth(struct fake *fake)
{
    atomic_store(&fake->refuses_auth, true);
}

const char *fake_address(const struct fake *fake)
{
    return fake->address;
}
int fake_requests(struct fake *fake)
{
    return atomic_load(&fake->requests);
}
