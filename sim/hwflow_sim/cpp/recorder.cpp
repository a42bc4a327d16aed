// Keeps the settings of a run and everything that its monitors record.
#include "recorder.h"

#include <vector>

uint64_t cycles_run = 0;
double seconds_run = 0;

namespace {

constexpr int TOTALS = 6;
constexpr int LINK = 3;

struct Boundary {
    int words_per_beat = 1;
    int64_t beats_per_frame = 1;
    int64_t expected_beats = 0;
    uint64_t limit = 0;                 // words to keep: what is expected, and some of what is too much
    uint64_t next_first = 0;            // index of the first word of the next frame
    uint64_t next_last = 0;             // index of the first word of the last beat of the current frame
    uint64_t count = 0;                 // words seen
    std::vector<uint64_t> words;
    std::vector<int64_t> frame_cycles;  // pairs: cycle of the first beat of a frame, cycle of its last
    int64_t totals[TOTALS] = {};        // as in hwflow_report
    uint64_t violations = 0;
    int64_t first_violation = -1;
};

struct Stall {
    int threshold = 0;
    int seed = 1;
};

struct Source {
    const uint64_t* next = nullptr;
    const uint64_t* end = nullptr;
};

struct Link {
    int64_t state[LINK] = {-1, -1, 0};  // as in hwflow_report_link
};

std::vector<Boundary> boundaries;
std::vector<Source> sources;
std::vector<Stall> stalls;
std::vector<Link> links;
int64_t idle_limit = 0;
int64_t stop_cycle = -1;
int64_t finish_cycle = 0;

}  // namespace

int64_t hwflow_source_word(int number) {
    Source& s = sources[number];
    return s.next == s.end ? 0 : static_cast<int64_t>(*s.next++);
}

int64_t hwflow_expected_beats(int id) { return boundaries[id].expected_beats; }

int64_t hwflow_idle_limit() { return idle_limit; }

int64_t hwflow_stop_cycle() { return stop_cycle; }

int hwflow_stall_threshold(int id) { return stalls[id].threshold; }

int hwflow_stall_seed(int id) { return stalls[id].seed; }

void hwflow_record(int id, int64_t cycle, int64_t word) {
    Boundary& b = boundaries[id];
    const uint64_t index = b.count++;
    if (index >= b.limit) return;
    if (index == b.next_first) {
        b.frame_cycles.push_back(cycle);
        b.next_first += b.beats_per_frame * b.words_per_beat;
    }
    if (index == b.next_last) {
        b.frame_cycles.push_back(cycle);
        b.next_last += b.beats_per_frame * b.words_per_beat;
    }
    b.words.push_back(static_cast<uint64_t>(word));
}

void hwflow_report(int id, int64_t beats, int64_t last_cycle, int64_t busy, int64_t stalled, int busy_now,
                   int stalled_now) {
    const int64_t totals[TOTALS] = {beats, last_cycle, busy, stalled, busy_now, stalled_now};
    for (int n = 0; n < TOTALS; n++) boundaries[id].totals[n] = totals[n];
}

void hwflow_report_link(int id, int64_t full_since, int64_t empty_since, int64_t level) {
    links[id] = Link{{full_since, empty_since, level}};
}

void hwflow_violation(int id, int64_t cycle) {
    Boundary& b = boundaries[id];
    if (b.violations++ == 0) b.first_violation = cycle;
}

void hwflow_finished(int64_t cycle) { finish_cycle = cycle; }

void hwflow_prepare(int boundary_count, int source_count, int stall_count, int link_count, int64_t limit, int64_t stop) {
    boundaries.assign(boundary_count, Boundary{});
    sources.assign(source_count, Source{});
    stalls.assign(stall_count, Stall{});
    links.assign(link_count, Link{});
    idle_limit = limit;
    stop_cycle = stop;
}

void hwflow_prepare_boundary(int id, int words, int64_t beats_per_frame, int64_t expected_beats) {
    Boundary& b = boundaries[id];
    b.words_per_beat = words;
    b.beats_per_frame = beats_per_frame;
    b.expected_beats = expected_beats;
    b.limit = (expected_beats + beats_per_frame) * words;
    b.next_last = (beats_per_frame - 1) * words;
}

void hwflow_prepare_source(int number, const uint64_t* words, uint64_t count) {
    sources[number] = Source{words, words + count};
}

void hwflow_prepare_stall(int id, int threshold, int seed) { stalls[id] = Stall{threshold, seed}; }

uint64_t hwflow_word_count(int id) { return boundaries[id].words.size(); }

const uint64_t* hwflow_words(int id) { return boundaries[id].words.data(); }

uint64_t hwflow_frame_cycle_count(int id) { return boundaries[id].frame_cycles.size(); }

const int64_t* hwflow_frame_cycles(int id) { return boundaries[id].frame_cycles.data(); }

const int64_t* hwflow_totals(int id) { return boundaries[id].totals; }

uint64_t hwflow_violation_count(int id) { return boundaries[id].violations; }

int64_t hwflow_first_violation(int id) { return boundaries[id].first_violation; }

const int64_t* hwflow_link(int id) { return links[id].state; }

int64_t hwflow_finish_cycle() { return finish_cycle; }

uint64_t hwflow_cycles() { return cycles_run; }

double hwflow_seconds() { return seconds_run; }
