/* channel.c - ordered channels: a message is read when its delay is over, after all before it, and not while the channel is held. */
#include "sim.h"

struct sim_message *sim_message_new(struct sim *s, enum sim_message_kind kind)
{
    struct sim_message *message = s->free_messages;
    if (message) {
        s->free_messages = message->next;
    } else if (s->message_count < SIM_MESSAGES) {
        message = &s->messages[s->message_count++];
    } else {
        s->overflow = true;
        message = &s->messages[SIM_MESSAGES - 1]; /* the run is over: nobody will read it */
    }
    *message =
        (struct sim_message){.kind = kind, .session = -1, .conn = -1, .via = -1, .path = -1, .node = -1, .parts = -1};
    return message;
}

void sim_message_free(struct sim *s, struct sim_message *message)
{
    if (s->overflow) {
        return;
    }
    message->next = s->free_messages;
    s->free_messages = message;
}

void sim_channel_rearm(struct sim *s, struct sim_channel *channel, int slot)
{
    int64_t due = SIM_NEVER;
    if (channel->head) {
        due = channel->head->due > channel->held_until ? channel->head->due : channel->held_until;
    }
    sim_arm(s, slot, due);
}

void sim_channel_push(struct sim *s, struct sim_channel *channel, int slot, struct sim_message *message)
{
    int64_t due = sim_now(s) + sim_plan_delay(s->plan, s->seed, slot, channel->sent++, s->quick);
    if (due <= channel->last_due) {
        due = channel->last_due + (s->plan->delay > 0);
    }
    channel->last_due = due;
    message->due = due;
    message->next = NULL;
    channel->count++;
    if (channel->tail) {
        channel->tail->next = message;
        channel->tail = message;
        return;
    }
    channel->head = message;
    channel->tail = message;
    sim_channel_rearm(s, channel, slot);
}

struct sim_message *sim_channel_pop(struct sim *s, struct sim_channel *channel, int slot)
{
    struct sim_message *message = channel->head;
    channel->head = message->next;
    channel->count--;
    if (!channel->head) {
        channel->tail = NULL;
    }
    sim_channel_rearm(s, channel, slot);
    return message;
}

void sim_channel_cut(struct sim *s, struct sim_channel *channel, int slot, int keep)
{
    struct sim_message **link = &channel->head;
    channel->tail = NULL;
    for (; *link && keep > 0; keep--) {
        channel->tail = *link;
        link = &(*link)->next;
    }
    struct sim_message *rest = *link;
    *link = NULL;
    while (rest) {
        struct sim_message *next = rest->next;
        sim_message_free(s, rest);
        channel->count--;
        rest = next;
    }
    sim_channel_rearm(s, channel, slot);
}

void sim_channel_hold(struct sim *s, struct sim_channel *channel, int slot, int64_t duration)
{
    if (channel->held_until < sim_now(s) + duration) {
        channel->held_until = sim_now(s) + duration;
    }
    sim_channel_rearm(s, channel, slot);
}
