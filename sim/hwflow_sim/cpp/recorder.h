// What the bench and Python exchange.  The bench calls the `hwflow_*` functions through DPI; Python calls the ones under
// "For Python" through ctypes in the same process, before `go` rises and after `done` has.
#pragma once
#include <cstdint>

extern "C" {

// For the bench.
int64_t hwflow_source_word(int number);
int64_t hwflow_expected_beats(int id);
int64_t hwflow_idle_limit();
int64_t hwflow_stop_cycle();
int hwflow_stall_threshold(int id);
int hwflow_stall_seed(int id);
void hwflow_record(int id, int64_t cycle, int64_t word);
void hwflow_report(int id, int64_t beats, int64_t last_cycle, int64_t busy, int64_t stalled, int busy_now,
                   int stalled_now);
void hwflow_report_link(int id, int64_t full_since, int64_t empty_since, int64_t level);
void hwflow_violation(int id, int64_t cycle);
void hwflow_finished(int64_t cycle);

// For Python.  A boundary with `words` 64-bit words a beat; frames of `beats_per_frame` beats.
void hwflow_prepare(int boundaries, int sources, int stalls, int links, int64_t idle_limit, int64_t stop_cycle);
void hwflow_prepare_boundary(int id, int words, int64_t beats_per_frame, int64_t expected_beats);
void hwflow_prepare_source(int number, const uint64_t* words, uint64_t count);
void hwflow_prepare_stall(int id, int threshold, int seed);
uint64_t hwflow_word_count(int id);
const uint64_t* hwflow_words(int id);
uint64_t hwflow_frame_cycle_count(int id);
const int64_t* hwflow_frame_cycles(int id);
const int64_t* hwflow_totals(int id);
uint64_t hwflow_violation_count(int id);
int64_t hwflow_first_violation(int id);
const int64_t* hwflow_link(int id);
int64_t hwflow_finish_cycle();
uint64_t hwflow_cycles();
double hwflow_seconds();
}

// Clock cycles since the start of the process, and the seconds spent in them: kept by the main loop.
extern uint64_t cycles_run;
extern double seconds_run;
