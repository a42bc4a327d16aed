/* See hwflow_link.h, and docs/host-link.md for the packets. */
#include "hwflow_link.h"

#include <string.h>

enum { FLAG = 0x7E, ESCAPE = 0x7D, FLIP = 0x20 };
enum { RESET = 0x01, DATA = 0x02, POLL = 0x03, IDENTITY = 0x81, STATUS = 0x82, RESULT = 0x83, MEMORY = 0x84 };
enum { VERSION = 2, HEADER = 5, CHECKSUM = 4, IDENTITY_BYTES = 21, LEAST_PAYLOAD = 32, MOST_PAYLOAD = 1463 };
/* Packets of data under way at most: fewer than half of the sequences, so that one exists that is surely not expected. */
enum { MOST_IN_FLIGHT = 64 };
/* Results that are acknowledged by themselves while data are under way. */
enum { PATIENT = 4 };
/* STATUS without news, while data are under way, that say that some were lost; questions before a board is silent. */
enum { STALE = 2, QUESTIONS = 3 };
enum { NOT_AWAITED = 0, AWAITED = 1, CAME = 2 };

/* Half a byte at a time of CRC-32 as in zlib: 64 bytes of constants in place of 1024. */
static uint32_t crc_of(uint32_t crc, const uint8_t *bytes, size_t size)
{
    static const uint32_t table[16] = {
        0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u, 0x4DB26158u, 0x5005713Cu,
        0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu, 0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu};
    size_t k;
    for (k = 0; k < size; k++) {
        crc ^= bytes[k];
        crc = crc >> 4 ^ table[crc & 15u];
        crc = crc >> 4 ^ table[crc & 15u];
    }
    return crc;
}

static uint16_t two_bytes(const uint8_t *at) { return (uint16_t)(at[0] | (uint16_t)at[1] << 8); }

static uint32_t four_bytes(const uint8_t *at) { return two_bytes(at) | (uint32_t)two_bytes(at + 2) << 16; }

static uint32_t now(const struct hwflow_link *link) { return link->port->milliseconds(link->port->context); }

static void fail(struct hwflow_link *link, int status)
{
    if (link->failure == HWFLOW_OK)
        link->failure = status;
}

static void progressed(struct hwflow_link *link)
{
    link->moved = link->timer = now(link);
    link->questions = 0;
    link->stale = 0;
}

/* ---- to the board */

struct piece {
    uint8_t bytes[HWFLOW_PIECE];
    size_t size;
};

/* Put what there is on the line, and take what came meanwhile. */
static void flush(struct hwflow_link *link, struct piece *piece)
{
    uint8_t in[HWFLOW_PIECE];
    size_t size = piece->size;
    int got;
    piece->size = 0;
    if (link->failure == HWFLOW_ERROR_PORT)
        return;
    got = link->port->exchange(link->port->context, piece->bytes, size, in, sizeof in);
    if (got < 0 || (size_t)got > sizeof in)
        fail(link, HWFLOW_ERROR_PORT);
    else
        hwflow_feed(link, in, (size_t)got);
}

static void put(struct hwflow_link *link, struct piece *piece, uint8_t byte)
{
    if (piece->size == sizeof piece->bytes)
        flush(link, piece);
    piece->bytes[piece->size++] = byte;
}

static void put_escaped(struct hwflow_link *link, struct piece *piece, const uint8_t *bytes, size_t size)
{
    size_t k;
    for (k = 0; k < size; k++) {
        if (bytes[k] == FLAG || bytes[k] == ESCAPE) {
            put(link, piece, ESCAPE);
            put(link, piece, bytes[k] ^ FLIP);
        } else {
            put(link, piece, bytes[k]);
        }
    }
}

static void send(struct hwflow_link *link, uint8_t kind, uint8_t sequence, const uint8_t *payload, size_t size)
{
    struct piece piece;
    uint8_t header[HEADER], check[CHECKSUM];
    uint32_t crc;
    header[0] = kind;
    header[1] = sequence;
    header[2] = link->expected;
    header[3] = (uint8_t)size;
    header[4] = (uint8_t)(size >> 8);
    crc = ~crc_of(crc_of(0xFFFFFFFFu, header, sizeof header), payload, size);
    check[0] = (uint8_t)crc;
    check[1] = (uint8_t)(crc >> 8);
    check[2] = (uint8_t)(crc >> 16);
    check[3] = (uint8_t)(crc >> 24);
    piece.size = 0;
    put(link, &piece, FLAG);
    put_escaped(link, &piece, header, sizeof header);
    put_escaped(link, &piece, payload, size);
    put_escaped(link, &piece, check, sizeof check);
    put(link, &piece, FLAG);
    flush(link, &piece);
    link->counts.sent++;
}

static void listen(struct hwflow_link *link)
{
    struct piece piece;
    piece.size = 0;
    flush(link, &piece);
}

/* Say which results have come where there are no data to say it with: a sequence that the board does not expect. */
static void acknowledge(struct hwflow_link *link)
{
    static const uint8_t nothing = 0;
    link->owed = 0;
    send(link, DATA, (uint8_t)(link->sequence + link->base - 128u), &nothing, 1);
}

static void poll(struct hwflow_link *link)
{
    link->owed = 0;
    link->counts.polls++;
    link->timer = now(link);
    send(link, POLL, 0, NULL, 0);
}

/* ---- from the board */

static void take_identity(struct hwflow_link *link, const uint8_t *packet, size_t size)
{
    const uint8_t *payload = packet + HEADER;
    struct hwflow_identity *identity = &link->identity;
    if (link->awaiting == NOT_AWAITED) {
        fail(link, HWFLOW_ERROR_LOST);
    } else if (packet[1] == link->asked && size > 0 && payload[0] != VERSION) {
        fail(link, HWFLOW_ERROR_VERSION);
    } else if (packet[1] == link->asked && size == IDENTITY_BYTES) {
        memcpy(identity->design, payload + 1, HWFLOW_DESIGN);
        identity->bytes_in = four_bytes(payload + 9);
        identity->bytes_out = four_bytes(payload + 13);
        identity->room = two_bytes(payload + 17);
        identity->payload = two_bytes(payload + 19);
        link->awaiting = CAME;
    }
}

/* The board has all data before `expected`, and room for `room` bytes behind them. */
static void take_status(struct hwflow_link *link, uint8_t expected, uint16_t room)
{
    uint32_t arrived = (uint8_t)(expected - (uint8_t)(link->sequence + link->base));
    if (arrived > link->fresh - link->base) {
        fail(link, HWFLOW_ERROR_LOST);
        return;
    }
    link->room = room;
    if (arrived > 0) {
        link->base += arrived;
        if (link->cursor < link->base)
            link->cursor = link->base;
        progressed(link);
    } else if (link->cursor == link->base) {
        link->stale = 0;
    } else if (link->late > 0) {
        link->late--; /* the answer to one of those behind the lost one, which are sent again already */
    } else if (++link->stale == STALE) {
        link->late = (uint8_t)(link->cursor - link->base);
        link->stale = 0;
        link->cursor = link->base;
    }
}

static void take_result(struct hwflow_link *link, uint8_t sequence, const uint8_t *payload, size_t size)
{
    uint8_t ahead = (uint8_t)(sequence - link->expected);
    if (ahead >= 128) {
        link->counts.repeated++;
    } else if (ahead > 0) {
        /* Ask once; where the answer is lost, the clock asks again. */
        link->missing |= link->gap != (uint32_t)link->expected + 1u;
        link->gap = (uint32_t)link->expected + 1u;
    } else if (size > link->wanted - link->taken || size > link->identity.bytes_out - link->frame_place) {
        fail(link, HWFLOW_ERROR_LOST); /* more than was asked for, or across the end of a frame */
    } else {
        memcpy(link->results + link->taken, payload, size);
        link->taken += size;
        link->frame_place += size;
        if (link->frame_place == link->identity.bytes_out)
            link->frame_place = 0;
        link->expected++;
        link->gap = 0;
        if (link->owed < 255)
            link->owed++;
        progressed(link);
    }
}

/* A packet that is whole. */
static void take(struct hwflow_link *link, const uint8_t *packet, size_t size)
{
    link->counts.received++;
    link->heard = now(link);
    if (packet[0] == IDENTITY)
        take_identity(link, packet, size);
    else if (link->awaiting != NOT_AWAITED)
        return; /* of a run before this one */
    else if (packet[0] == STATUS && size == 2)
        take_status(link, packet[2], two_bytes(packet + HEADER));
    else if (packet[0] == RESULT && size > 0)
        take_result(link, packet[1], packet + HEADER, size);
    else if (packet[0] == MEMORY)
        fail(link, HWFLOW_ERROR_WEIGHTS);
    else
        link->counts.dropped++;
}

/* What was between two flags. */
static void end_packet(struct hwflow_link *link)
{
    size_t length = link->length;
    const uint8_t *packet = link->buffer;
    int whole = !link->broken && !link->escaped && length >= HEADER + CHECKSUM;
    if (whole)
        whole = length == HEADER + CHECKSUM + (size_t)two_bytes(packet + 3) &&
                ~crc_of(0xFFFFFFFFu, packet, length - CHECKSUM) == four_bytes(packet + length - CHECKSUM);
    if (whole)
        take(link, packet, length - HEADER - CHECKSUM);
    else if (length > 0 || link->broken || link->escaped)
        link->counts.dropped++;
    link->length = 0;
    link->broken = link->escaped = 0;
}

void hwflow_feed(struct hwflow_link *link, const uint8_t *bytes, size_t size)
{
    size_t k;
    for (k = 0; k < size; k++) {
        uint8_t byte = bytes[k];
        if (byte == FLAG) {
            end_packet(link);
        } else if (byte == ESCAPE && !link->escaped) {
            link->escaped = 1;
        } else {
            if (link->escaped) {
                byte ^= FLIP;
                link->escaped = 0;
                if (byte != FLAG && byte != ESCAPE)
                    link->broken = 1;
            }
            if (link->length < link->capacity)
                link->buffer[link->length++] = byte;
            else
                link->broken = 1;
        }
    }
}

/* ---- a session */

/* RESET until the board answers. */
static int start(struct hwflow_link *link)
{
    uint32_t began = now(link);
    link->failure = HWFLOW_OK;
    link->sequence = link->expected = 0;
    link->base = link->cursor = link->fresh = link->packets = 0;
    link->taken = link->wanted = link->size = link->frame_place = 0;
    link->owed = link->stale = link->late = link->missing = 0;
    link->gap = 0;
    link->awaiting = AWAITED;
    while (link->awaiting == AWAITED && link->failure == HWFLOW_OK) {
        uint32_t asked = now(link);
        if (asked - began > link->silence) {
            fail(link, HWFLOW_ERROR_SILENT);
            break;
        }
        link->asked++;
        send(link, RESET, link->asked, NULL, 0);
        while (link->awaiting == AWAITED && link->failure == HWFLOW_OK && now(link) - asked < link->ask)
            listen(link);
    }
    link->awaiting = NOT_AWAITED;
    return link->failure;
}

static int check(const struct hwflow_link *link, const uint8_t *design)
{
    const struct hwflow_identity *identity = &link->identity;
    uint32_t largest = identity->payload < identity->bytes_out ? identity->payload : identity->bytes_out;
    if (identity->bytes_in == 0 || identity->bytes_out == 0 || identity->payload < LEAST_PAYLOAD ||
        identity->payload > MOST_PAYLOAD || identity->room < identity->payload)
        return HWFLOW_ERROR_VERSION;
    if (design != NULL && memcmp(design, identity->design, HWFLOW_DESIGN) != 0)
        return HWFLOW_ERROR_DESIGN;
    return link->capacity < HWFLOW_BUFFER(largest) ? HWFLOW_ERROR_BUFFER : HWFLOW_OK;
}

int hwflow_open(struct hwflow_link *link, const struct hwflow_port *port, uint8_t *buffer, size_t capacity,
                const uint8_t *design)
{
    struct hwflow_identity first;
    if (link == NULL || port == NULL || port->exchange == NULL || port->milliseconds == NULL || buffer == NULL)
        return HWFLOW_ERROR_ARGUMENT;
    memset(link, 0, sizeof *link);
    link->port = port;
    link->buffer = buffer;
    link->capacity = capacity;
    link->ask = 100;
    link->silence = 3000;
    link->stall = 30000;
    link->failure = HWFLOW_ERROR_ARGUMENT; /* not open yet */
    if (capacity < HWFLOW_BUFFER(LEAST_PAYLOAD))
        return HWFLOW_ERROR_BUFFER;
    link->asked = (uint8_t)(now(link) * 37u);
    /* Twice: an answer that is left over from another host has the right sequence once in 256 times. */
    if (start(link) != HWFLOW_OK)
        return link->failure;
    first = link->identity;
    if (start(link) == HWFLOW_OK)
        link->failure = memcmp(first.design, link->identity.design, HWFLOW_DESIGN) != 0 ? HWFLOW_ERROR_DESIGN
                                                                                       : check(link, design);
    link->opened = link->failure == HWFLOW_OK;
    return link->failure;
}

int hwflow_reset_state(struct hwflow_link *link)
{
    struct hwflow_identity before;
    if (link == NULL || !link->opened)
        return HWFLOW_ERROR_ARGUMENT;
    before = link->identity;
    if (start(link) == HWFLOW_OK)
        link->failure = check(link, before.design);
    return link->failure;
}

int hwflow_begin(struct hwflow_link *link, const uint8_t *frames, size_t count, uint8_t *results)
{
    const struct hwflow_identity *identity;
    if (link == NULL || !link->opened || frames == NULL || results == NULL || count == 0)
        return HWFLOW_ERROR_ARGUMENT;
    identity = &link->identity;
    if (count > (size_t)-1 / identity->bytes_in || count > (size_t)-1 / identity->bytes_out)
        return HWFLOW_ERROR_ARGUMENT;
    if (link->failure != HWFLOW_OK || link->taken < link->wanted || link->base < link->packets) {
        if (hwflow_reset_state(link) != HWFLOW_OK)
            return link->failure;
    }
    link->sequence = (uint8_t)(link->sequence + link->base);
    link->base = link->cursor = link->fresh = 0;
    link->data = frames;
    link->results = results;
    link->size = count * identity->bytes_in;
    link->wanted = count * identity->bytes_out;
    link->taken = link->frame_place = 0;
    link->chunk = identity->payload;
    link->packets = (uint32_t)((link->size + link->chunk - 1) / link->chunk);
    /* What is free on the board is known from the last STATUS, or all of it is. */
    if (link->room == 0 || link->sequence == 0)
        link->room = identity->room;
    progressed(link);
    link->heard = link->moved;
    return HWFLOW_OK;
}

/* Put the next packet of data on the line where there is one and the board has room for it. */
static int send_data(struct hwflow_link *link)
{
    size_t before = (size_t)(link->cursor - link->base) * link->chunk;
    size_t place = (size_t)link->cursor * link->chunk, size = link->size - place;
    if (link->cursor == link->packets || link->cursor - link->base >= MOST_IN_FLIGHT)
        return 0;
    if (size > link->chunk)
        size = link->chunk;
    if (before + size > link->room)
        return 0;
    if (link->cursor == link->base)
        link->timer = now(link);
    if (link->cursor < link->fresh)
        link->counts.resent++;
    link->cursor++;
    if (link->fresh < link->cursor)
        link->fresh = link->cursor;
    link->owed = 0;
    send(link, DATA, (uint8_t)(link->sequence + place / link->chunk), link->data + place, size);
    return 1;
}

/* Ask where an answer is late; give up where too many are. */
static void look_at_the_clock(struct hwflow_link *link)
{
    uint32_t wait = link->ask << (link->questions < 3 ? link->questions : 3), longest = link->silence / 4;
    uint32_t time = now(link);
    if (time - link->heard > link->silence && link->questions >= QUESTIONS)
        fail(link, HWFLOW_ERROR_SILENT);
    else if (time - link->moved > link->stall)
        fail(link, HWFLOW_ERROR_STALLED);
    else if (link->missing) {
        link->missing = 0;
        poll(link);
    } else if (time - link->timer >= (wait < longest ? wait : longest)) {
        if (link->questions < 255)
            link->questions++;
        /* What was sent has been answered, or has been lost. */
        link->late = link->stale = 0;
        link->cursor = link->base;
        poll(link);
    }
}

int hwflow_step(struct hwflow_link *link)
{
    if (link == NULL || !link->opened)
        return HWFLOW_ERROR_ARGUMENT;
    if (link->failure != HWFLOW_OK)
        return link->failure;
    if (link->taken == link->wanted && link->base == link->packets) {
        if (link->owed > 0)
            acknowledge(link);
        return link->failure;
    }
    if (!send_data(link)) {
        if (link->owed > 0 && (link->cursor == link->base || link->owed >= PATIENT))
            acknowledge(link);
        else
            listen(link);
    }
    if (link->failure == HWFLOW_OK)
        look_at_the_clock(link);
    return link->failure != HWFLOW_OK ? link->failure : HWFLOW_BUSY;
}

int hwflow_run(struct hwflow_link *link, const uint8_t *frames, size_t count, uint8_t *results)
{
    int status = hwflow_begin(link, frames, count, results);
    if (status == HWFLOW_OK)
        do
            status = hwflow_step(link);
        while (status == HWFLOW_BUSY);
    return status;
}

const char *hwflow_text(int status)
{
    switch (status) {
    case HWFLOW_OK: return "all results are there";
    case HWFLOW_BUSY: return "there is more to do";
    case HWFLOW_ERROR_PORT: return "the line failed";
    case HWFLOW_ERROR_SILENT: return "the board does not answer: is it powered, connected, and its bitstream loaded?";
    case HWFLOW_ERROR_STALLED: return "the board answers, but takes no data and gives no results: load its bitstream again";
    case HWFLOW_ERROR_DESIGN: return "the board holds another design: load its bitstream";
    case HWFLOW_ERROR_VERSION: return "the board speaks another version of the protocol: make its bitstream again";
    case HWFLOW_ERROR_BUFFER: return "the buffer is too small for the board's packets";
    case HWFLOW_ERROR_LOST: return "the board started anew, or another host uses it: run again";
    case HWFLOW_ERROR_WEIGHTS: return "the memory beside the FPGA does not have the weights: fill it with `hwflow program`";
    case HWFLOW_ERROR_ARGUMENT: return "null pointers, no frames, or not open";
    default: return "unknown status";
    }
}
