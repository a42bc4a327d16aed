/* A million packets of random and mutated bytes into the C driver: it must not read or write beyond its buffers, hang,
 * or take a wrong answer for a right one.  Arguments: packets, seed.  Compiled with the sanitizers of the compiler. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwflow_link.h"

enum { BYTES_IN = 700, BYTES_OUT = 90, FRAMES = 3, LARGEST = 1600 };

static uint64_t state;
static uint32_t milliseconds_now;
/* What the driver hears next. */
static uint8_t waiting[4 * LARGEST];
static size_t waiting_size, waiting_at;
static unsigned long packets, statuses[16];

static uint32_t chance(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static uint32_t crc_of(const uint8_t *bytes, size_t size)
{
    uint32_t crc = 0xFFFFFFFFu;
    size_t k;
    int bit;
    for (k = 0; k < size; k++)
        for (crc ^= bytes[k], bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1u ? 0xEDB88320u : 0u);
    return ~crc;
}

static void put(uint8_t byte)
{
    if (waiting_size < sizeof waiting)
        waiting[waiting_size++] = byte;
}

/* A packet with a right checksum, escaped. */
static void packet(uint8_t kind, uint8_t sequence, uint8_t acknowledge, const uint8_t *payload, size_t size)
{
    static uint8_t body[LARGEST];
    uint32_t crc;
    size_t k;
    body[0] = kind;
    body[1] = sequence;
    body[2] = acknowledge;
    body[3] = (uint8_t)size;
    body[4] = (uint8_t)(size >> 8);
    if (size > 0)
        memcpy(body + 5, payload, size);
    crc = crc_of(body, size + 5);
    for (k = 0; k < 4; k++)
        body[size + 5 + k] = (uint8_t)(crc >> 8 * k);
    put(0x7E);
    for (k = 0; k < size + 9; k++) {
        if (body[k] == 0x7E || body[k] == 0x7D) {
            put(0x7D);
            put(body[k] ^ 0x20);
        } else
            put(body[k]);
    }
    put(0x7E);
    packets++;
}

static void identity(uint8_t sequence)
{
    uint8_t payload[21] = {2, 'f', 'u', 'z', 'z', 'f', 'u', 'z', 'z'};
    payload[9] = BYTES_IN & 255;
    payload[10] = BYTES_IN >> 8;
    payload[13] = BYTES_OUT;
    payload[18] = 2;  /* room 512 */
    payload[19] = 128;
    packet(0x81, sequence, 0, payload, sizeof payload);
}

/* Anything: a packet of some kind that is right, random, cut, or changed in some bytes. */
static void anything(const struct hwflow_link *link)
{
    static const uint8_t kinds[] = {0x81, 0x82, 0x83, 0x83, 0x83, 0x82, 0x84, 0x85, 0x02, 0x00, 0xFF};
    uint8_t payload[LARGEST];
    size_t begin = waiting_size, k, size = chance(4) ? chance(140) : chance(1500);
    uint8_t kind = kinds[chance(sizeof kinds)], sequence = chance(3) ? link->expected : (uint8_t)chance(256);
    for (k = 0; k < size; k++)
        payload[k] = (uint8_t)chance(256);
    if (kind == 0x81 && chance(8)) {
        identity(link->asked);
    } else {
        if (kind == 0x82)
            size = chance(8) ? 2 : size;
        packet(kind, sequence, (uint8_t)(link->sequence + link->base + (chance(3) ? 0 : chance(256))), payload, size);
    }
    if (chance(2))  /* changed */
        for (k = 1 + chance(4); k > 0; k--)
            waiting[begin + chance((uint32_t)(waiting_size - begin))] ^= (uint8_t)(1u << chance(8));
    if (!chance(8)) /* cut */
        waiting_size = begin + chance((uint32_t)(waiting_size - begin));
    if (!chance(8)) /* noise */
        for (k = chance(300); k > 0; k--)
            put((uint8_t)chance(256));
}

static int exchange(void *context, const uint8_t *out, size_t out_size, uint8_t *in, size_t in_size)
{
    size_t size;
    (void)out;
    (void)out_size;
    milliseconds_now += chance(3);
    if (waiting_at == waiting_size) {
        waiting_at = waiting_size = 0;
        if (chance(4))
            anything(context);
    }
    size = waiting_size - waiting_at < in_size ? waiting_size - waiting_at : in_size;
    if (size > 0)
        memcpy(in, waiting + waiting_at, size);
    waiting_at += size;
    return chance(100000) ? (int)size : -1;
}

static uint32_t milliseconds(void *context)
{
    (void)context;
    return milliseconds_now;
}

int main(int argc, char **argv)
{
    static struct hwflow_link link;
    const struct hwflow_port port = {&link, exchange, milliseconds};
    unsigned long wanted = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    uint8_t frames[FRAMES * BYTES_IN];
    size_t k;
    state = (argc > 2 ? strtoul(argv[2], NULL, 10) : 1) * 0x9E3779B97F4A7C15u + 1;
    for (k = 0; k < sizeof frames; k++)
        frames[k] = (uint8_t)chance(256);
    while (packets < wanted) {
        /* Exactly as large as they must be, on the heap, so that a byte beyond them is seen. */
        size_t capacity = HWFLOW_BUFFER(32u + chance(120));
        uint8_t *buffer = malloc(capacity), *results = malloc(FRAMES * BYTES_OUT);
        int status;
        if (buffer == NULL || results == NULL)
            return 3;
        waiting_at = waiting_size = 0;
        status = hwflow_open(&link, &port, buffer, capacity, NULL);
        link.silence = link.stall = 500;
        link.ask = 5 + chance(20);
        for (k = 0; k < 3 && link.opened; k++) {
            if (link.identity.bytes_in != BYTES_IN || link.identity.bytes_out != BYTES_OUT)
                break;  /* of a packet with a right checksum and other numbers: the results' room is another */
            status = hwflow_run(&link, frames, FRAMES, results);
            if (status > HWFLOW_OK || status < HWFLOW_ERROR_ARGUMENT)
                return 4;
            statuses[-status]++;
        }
        if (status > HWFLOW_OK || status < HWFLOW_ERROR_ARGUMENT || hwflow_text(status)[0] == 0)
            return 4;
        statuses[-status]++;
        free(buffer);
        free(results);
    }
    printf("%lu packets", packets);
    for (k = 0; k < 10; k++)
        printf(", %lu: %s", statuses[k], hwflow_text(-(int)k));
    putchar('\n');
    return 0;
}
