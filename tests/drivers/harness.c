/* The C driver as a program: the line is a pair of pipes to the test, and so is the clock.
 *
 * To standard output: "X", bytes out, bytes wanted (2 bytes each), the bytes out.  From standard input: how many came (2
 * bytes), the milliseconds (4 bytes), the bytes.  First of all the test sends the frames: count (4), bytes of a frame in
 * and out (4 each), bytes of the buffer (4), the frames.  At the end: "E", the status of each run (4), counts (6 x 4), and
 * the results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwflow_link.h"

static uint32_t milliseconds_now;

static void need(int fine)
{
    if (!fine)
        exit(3);
}

static uint32_t number(size_t size)
{
    uint8_t bytes[4] = {0, 0, 0, 0};
    need(fread(bytes, 1, size, stdin) == size);
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void say(uint32_t value, size_t size)
{
    size_t k;
    for (k = 0; k < size; k++)
        putchar((int)(value >> 8 * k & 255u));
}

static int exchange(void *context, const uint8_t *out, size_t out_size, uint8_t *in, size_t in_size)
{
    size_t came;
    (void)context;
    putchar('X');
    say((uint32_t)out_size, 2);
    say((uint32_t)in_size, 2);
    if (out_size > 0)
        fwrite(out, 1, out_size, stdout);
    fflush(stdout);
    came = number(2);
    milliseconds_now = number(4);
    if (came == 0xFFFF)
        return -1;
    need(came <= in_size && fread(in, 1, came, stdin) == came);
    return (int)came;
}

static uint32_t milliseconds(void *context)
{
    (void)context;
    return milliseconds_now;
}

int main(void)
{
    const struct hwflow_port port = {NULL, exchange, milliseconds};
    struct hwflow_link link;
    uint32_t count = number(4), bytes_in = number(4), bytes_out = number(4), capacity = number(4), runs = number(4), k;
    uint8_t *frames = malloc((size_t)count * bytes_in), *results = calloc(count, bytes_out), *buffer = malloc(capacity);
    uint8_t design[HWFLOW_DESIGN];
    int status;
    need(frames != NULL && results != NULL && buffer != NULL);
    need(fread(design, 1, sizeof design, stdin) == sizeof design);
    need(fread(frames, 1, (size_t)count * bytes_in, stdin) == (size_t)count * bytes_in);
    status = hwflow_open(&link, &port, buffer, capacity, design);
    /* In so many runs, one after the other; the second one and every other begins a new sequence. */
    for (k = 0; k < runs && status == HWFLOW_OK; k++) {
        uint32_t first = (uint32_t)((uint64_t)count * k / runs), last = (uint32_t)((uint64_t)count * (k + 1) / runs);
        if (k % 2 == 1)
            status = hwflow_reset_state(&link);
        if (last > first && status == HWFLOW_OK)
            status = hwflow_run(&link, frames + (size_t)first * bytes_in, last - first, results + (size_t)first * bytes_out);
    }
    putchar('E');
    say((uint32_t)status, 4);
    say(link.counts.sent, 4);
    say(link.counts.received, 4);
    say(link.counts.resent, 4);
    say(link.counts.repeated, 4);
    say(link.counts.dropped, 4);
    say(link.counts.polls, 4);
    fwrite(results, 1, (size_t)count * bytes_out, stdout);
    fflush(stdout);
    free(frames);
    free(results);
    free(buffer);
    return 0;
}
