/*
 * A driver for a board that runs a model made by hwflow: frames in, results out.
 *
 * C99, no allocation, no calls of an operating system, no floating point.  What is lost or damaged on the line is sent
 * again; results are those of the board or there is an error.  The protocol is in docs/host-link.md (version 2).
 *
 * The line is two functions of yours (struct hwflow_port).  The same code drives a serial line and an SPI bus.
 *
 *     uint8_t buffer[HWFLOW_BUFFER(64)];
 *     struct hwflow_link link;
 *     if (hwflow_open(&link, &port, buffer, sizeof buffer, design) == HWFLOW_OK)
 *         status = hwflow_run(&link, frames, count, results);
 */
#ifndef HWFLOW_LINK_H
#define HWFLOW_LINK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a buffer for packets of up to `payload` bytes.  Packets of results are as large as IDENTITY says, or as the
 * results of a frame where those are smaller; at least 32 are needed. */
#define HWFLOW_BUFFER(payload) ((payload) + 9u)
/* Bytes that `exchange` is asked for at a time. */
#define HWFLOW_PIECE 32u
/* Bytes of the name of a design. */
#define HWFLOW_DESIGN 8u

enum hwflow_status {
    HWFLOW_OK = 0,
    HWFLOW_BUSY = 1,             /* hwflow_step: there is more to do */
    HWFLOW_ERROR_PORT = -1,      /* `exchange` failed */
    HWFLOW_ERROR_SILENT = -2,    /* nothing right came from the board for `silence` milliseconds */
    HWFLOW_ERROR_STALLED = -3,   /* the board answers, but took no data and gave no results for `stall` milliseconds */
    HWFLOW_ERROR_DESIGN = -4,    /* the board holds another design; `link->identity` says which */
    HWFLOW_ERROR_VERSION = -5,   /* the board speaks another version of the protocol, or says what cannot be */
    HWFLOW_ERROR_BUFFER = -6,    /* the buffer is too small for the packets of this board */
    HWFLOW_ERROR_LOST = -7,      /* the board started anew, or another host uses it: no result of this run counts */
    HWFLOW_ERROR_WEIGHTS = -8,   /* the memory beside the FPGA does not have the weights of the design */
    HWFLOW_ERROR_ARGUMENT = -9   /* null pointers, no frames, or hwflow_run before hwflow_open */
};

/* The line to the board. */
struct hwflow_port {
    void *context;
    /*
     * Send `out_size` bytes, all of them, and put what has come from the board into `in`, at most `in_size` bytes, which
     * are at least as many as `out_size`.  Returns how many came, or a negative number where the line is gone.
     *
     * A serial line: write, then take what waits in the receiver; it must not wait for bytes.
     * An SPI bus: clock `in_size` bytes, `out` first and HWFLOW_IDLE behind it, and return `in_size`.
     */
    int (*exchange)(void *context, const uint8_t *out, size_t out_size, uint8_t *in, size_t in_size);
    /* Milliseconds since any moment; may wrap. */
    uint32_t (*milliseconds)(void *context);
};

/* What stands for no byte on a line that always carries one. */
#define HWFLOW_IDLE 0x7Eu

/* What a board says of itself. */
struct hwflow_identity {
    uint8_t design[HWFLOW_DESIGN];
    uint32_t bytes_in, bytes_out; /* of all inputs of a frame, of all outputs */
    uint16_t room, payload;       /* bytes that wait for the core, and of a packet, at most */
};

/* What went over the line since hwflow_open. */
struct hwflow_counts {
    uint32_t sent, received; /* packets */
    uint32_t resent;         /* packets of data that were sent once more */
    uint32_t repeated;       /* packets of results that came once more */
    uint32_t dropped;        /* what came and was no packet */
    uint32_t polls;          /* questions after an answer did not come in time, or a gap */
};

/* A board.  Every field is the driver's own but `identity` and `counts`, which may be read, and the four times in
 * milliseconds, which may be changed behind hwflow_open. */
struct hwflow_link {
    struct hwflow_identity identity;
    struct hwflow_counts counts;
    uint32_t ask;     /* until the board is asked again, 100 */
    uint32_t silence; /* until a silent board is given up, 3000 */
    uint32_t stall;   /* until one that does nothing is given up, 30000 */

    const struct hwflow_port *port;
    /* The packet that comes, and what of it is there. */
    uint8_t *buffer;
    size_t capacity, length;
    uint8_t escaped, broken;
    /* The frames under way: packet k of a run has `chunk` bytes from k * chunk on. */
    const uint8_t *data;
    uint8_t *results;
    size_t size, wanted, taken; /* bytes of data, of results, and of results that are there */
    size_t frame_place;         /* place in a frame's results, where the next packet begins */
    uint16_t chunk;
    uint32_t base, cursor, fresh, packets; /* packets of this run: the board's, next to send, never sent, all */
    uint32_t room;                         /* behind `base` */
    uint8_t sequence, expected;            /* of packet 0 of this run; of the next result */
    uint8_t owed;                          /* results that the board does not know to have arrived */
    uint8_t stale, late;                   /* STATUS without news; how many more are awaited */
    uint8_t missing;                       /* a result is missing in front of one that came: ask */
    uint8_t asked;                         /* the sequence of the last RESET */
    uint8_t awaiting;                      /* an IDENTITY is awaited: 1, 2 when it came */
    uint8_t opened, questions;
    uint32_t gap; /* the result that was missing when the host last asked for it, and one */
    uint32_t heard, moved, timer;
    int failure;
};

/*
 * Start the board anew, ask what it is, and see that it holds `design`, the 8 bytes "design" of identity.json; NULL takes
 * any.  `port` and `buffer` belong to the driver from now on.  HWFLOW_OK, or what is wrong.
 */
int hwflow_open(struct hwflow_link *link, const struct hwflow_port *port, uint8_t *buffer, size_t capacity,
                const uint8_t *design);

/*
 * The results of `count` frames: count * identity.bytes_in bytes in, count * identity.bytes_out bytes out, in order.
 * `frames` must stay as they are: they are read again where something is lost.  After an error the next run starts the
 * board anew.
 */
int hwflow_run(struct hwflow_link *link, const uint8_t *frames, size_t count, uint8_t *results);

/* Begin a new sequence: a design that keeps a state from frame to frame goes on from run to run, and begins anew after
 * this.  It takes a round trip; nothing may be under way.  HWFLOW_OK, or what is wrong. */
int hwflow_reset_state(struct hwflow_link *link);

/* The same without waiting: begin, then step until it does not return HWFLOW_BUSY.  A step sends at most one packet and
 * takes what came; `link->taken` says how many bytes of results are there. */
int hwflow_begin(struct hwflow_link *link, const uint8_t *frames, size_t count, uint8_t *results);
int hwflow_step(struct hwflow_link *link);

/* Bytes that came from the board, where something else than `exchange` has them; any bytes at all. */
void hwflow_feed(struct hwflow_link *link, const uint8_t *bytes, size_t size);

/* One sentence for a status. */
const char *hwflow_text(int status);

#ifdef __cplusplus
}
#endif

#endif
