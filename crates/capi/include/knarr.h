/* Knarr: compresses arrays in memory under a stated quality, makes checkpoints, and writes files. Link with -lknarr.
 *
 * Generated from the sources of libknarr: do not edit.
 *
 * Every function that returns a knarr_status returns KNARR_OK or an error, whose text knarr_last_error() gives. None
 * of them prints or changes global state, nor ends the program unless memory runs out in the middle of a call. A context
 * may be used by many threads at once; hints and other structures belong to the caller. Shapes name the slowest varying
 * dimension first, as C arrays do; arrays are contiguous, in native byte order, and need not be aligned. Source and
 * destination must not overlap. */

#ifndef KNARR_H
#define KNARR_H

#include <stddef.h>
#include <stdint.h>

/*
 The newest checkpoint that is whole, for knarr_checkpoint_restart().
 */
#define KNARR_LATEST -1

/*
 Length of a dimension that can grow, for knarr_output_def_dim().
 */
#define KNARR_UNLIMITED 0

/*
 Dimensions that an array may have.
 */
#define KNARR_MAX_RANK 32

/*
 Number of Knarr's HDF5 filter, for H5Pset_filter.
 */
#define KNARR_HDF5_FILTER 45223

/*
 An integer hint that is not stated; a real one is NaN then.
 */
#define KNARR_UNSET -1

/*
 What became of a call. Numbers are never reused.
 */
typedef enum {
  /*
   Done.
   */
  KNARR_OK = 0,
  /*
   The call is wrong: a null pointer, a value out of range, a buffer too small, a contradiction.
   */
  KNARR_USAGE = 1,
  /*
   A profile cannot be parsed.
   */
  KNARR_CONFIG = 2,
  /*
   A file does not exist.
   */
  KNARR_NOT_FOUND = 3,
  /*
   A checkpoint or a file exists and may not be replaced.
   */
  KNARR_EXISTS = 4,
  /*
   A file cannot be read.
   */
  KNARR_READ = 5,
  /*
   A file cannot be written, or there is no room.
   */
  KNARR_WRITE = 6,
  /*
   The bytes are not a whole, undamaged frame, or a checkpoint is damaged.
   */
  KNARR_CORRUPT = 7,
  /*
   A codec that the frame needs is not available.
   */
  KNARR_MISSING_FILTER = 8,
  /*
   This version, this type or this machine's memory cannot serve the request.
   */
  KNARR_UNSUPPORTED = 9,
  /*
   The quality cannot be kept.
   */
  KNARR_QUALITY = 10,
  /*
   A file changed while it was packed.
   */
  KNARR_DIFFERS = 11,
  /*
   Another rank is gone.
   */
  KNARR_INTERRUPTED = 12,
  /*
   A defect of Knarr.
   */
  KNARR_INTERNAL = 13,
} knarr_status;

/*
 Types of elements. Numbers are never reused.
 */
typedef enum {
  /*
   int8_t
   */
  KNARR_INT8 = 1,
  /*
   int16_t
   */
  KNARR_INT16 = 2,
  /*
   int32_t
   */
  KNARR_INT32 = 3,
  /*
   int64_t
   */
  KNARR_INT64 = 4,
  /*
   uint8_t
   */
  KNARR_UINT8 = 5,
  /*
   uint16_t
   */
  KNARR_UINT16 = 6,
  /*
   uint32_t
   */
  KNARR_UINT32 = 7,
  /*
   uint64_t
   */
  KNARR_UINT64 = 8,
  /*
   IEEE 754 binary16; lossless only.
   */
  KNARR_FLOAT16 = 9,
  /*
   float
   */
  KNARR_FLOAT32 = 10,
  /*
   double
   */
  KNARR_FLOAT64 = 11,
} knarr_dtype;

/*
 What a speed is measured in.
 */
typedef enum {
  /*
   Megabytes (1e6 bytes) of raw data per second of one core.
   */
  KNARR_MB_PER_SECOND = 0,
  /*
   Multiples of knarr_hints.network_speed.
   */
  KNARR_TIMES_NETWORK = 1,
  /*
   Multiples of knarr_hints.storage_speed.
   */
  KNARR_TIMES_STORAGE = 2,
} knarr_speed_unit;

/*
 The checkpoints of a program in a directory. Made by knarr_checkpoint_open(), freed by knarr_checkpoint_close(). One
 thread at a time may use it: the one that calls MPI.
 */
typedef struct knarr_checkpoint knarr_checkpoint;

/*
 The ranks of a program, as knarr_comm.h describes them.
 */
typedef struct knarr_comm knarr_comm;

/*
 What was asked for, and the means to do it. Made by knarr_context_create(), freed by knarr_context_free(). Any number
 of threads may use one at once.
 */
typedef struct knarr_context knarr_context;

/*
 A file that a program writes from all its ranks. Made by knarr_output_create(), freed by knarr_output_close(). One thread
 at a time may use it: the one that calls MPI.
 */
typedef struct knarr_output knarr_output;

/*
 A checkpoint to restart from. Made by knarr_checkpoint_restart(), freed by knarr_restart_free(). Any number of threads
 may use one at once.
 */
typedef struct knarr_restart knarr_restart;

/*
 What may change in the data and what to optimise. Initialised by knarr_hints_init(), which states nothing: lossless,
 goal 'balanced'. All bounds that are stated hold together, for every element, after the cast to its own type. NaN,
 infinities and fill values keep their bits under every bound, and no other value becomes one of them. Bounds are for
 KNARR_FLOAT32 and KNARR_FLOAT64.

 As the observed accuracy of knarr_validate() the same fields say what was kept.
 */
typedef struct {
  /*
   Size of this structure in bytes, set by knarr_hints_init(). Later versions add fields at the end.
   */
  size_t size;
  /*
   Largest absolute error, in the unit of the data. Not stated: NaN, as for all real fields.
   */
  double max_abs_error;
  /*
   Largest absolute error as a fraction of the range (largest - smallest) of the valid values, which are finite, no
   fill values and in no exact range.
   */
  double max_range_error;
  /*
   Largest error relative to each value; 0.01 is one per cent.
   */
  double max_rel_error;
  /*
   max_rel_error, significant_bits and significant_digits never ask for less than this absolute error, in the unit
   of the data: it keeps them affordable near zero.
   */
  double finest_abs_error;
  /*
   Explicit mantissa bits that stay right, 1 to 23 or 52. Not stated: KNARR_UNSET.
   */
  int32_t significant_bits;
  /*
   Decimal digits that stay right, 1 to 7 or 15. Not stated: KNARR_UNSET.
   */
  int32_t significant_digits;
  /*
   Values up to this, rounded to the type of the data, stay exact; no other value becomes one of them.
   */
  double exact_up_to;
  /*
   The same for values from this on.
   */
  double exact_from;
  /*
   A value that means 'missing', rounded to the type of the data: 1e20 stands for (float)1e20 among floats.
   */
  double fill_value;
  /*
   Slowest encoding that is good enough, in units of encode_unit.
   */
  double encode_speed;
  /*
   Slowest decoding that is good enough, in units of decode_unit.
   */
  double decode_speed;
  /*
   A knarr_speed_unit.
   */
  int32_t encode_unit;
  /*
   A knarr_speed_unit.
   */
  int32_t decode_unit;
  /*
   Speed of the network, MB/s.
   */
  double network_speed;
  /*
   Speed of one stream to storage, MB/s.
   */
  double storage_speed;
  /*
   What to optimise: speed, balanced, ratio, archive or energy; weights such as "ratio=0.4,encode=0.3,decode=0.3";
   limits such as "encode>=300MB/s". Empty: balanced.
   */
  char goal[128];
  /*
   Chain to use without choosing, such as "shuffle | zstd:3". Empty: chosen from the data.
   */
  char chain[256];
  /*
   File of a profile that 'knarr profile' wrote, for the speeds of this machine. Empty: the built-in profile.
   */
  char profile[1024];
} knarr_hints;

/*
 What a frame holds.
 */
typedef struct {
  /*
   Size of this structure in bytes: set it before the call.
   */
  size_t size;
  /*
   A knarr_dtype.
   */
  int32_t dtype;
  /*
   Number of dimensions; 0 for a scalar.
   */
  int32_t rank;
  /*
   Extents, slowest first.
   */
  size_t shape[KNARR_MAX_RANK];
  /*
   Bytes of the decoded array.
   */
  size_t raw_size;
  /*
   Bytes of the frame.
   */
  size_t frame_size;
  /*
   1 if the chain may change values, 0 if every bit is as it was.
   */
  int32_t lossy;
  /*
   The chain with all its options; "..." at the end where it is longer.
   */
  char chain[512];
} knarr_info;

/*
 What knarr_validate() found. Indices count elements in memory from 0; -1 is none.
 */
typedef struct {
  /*
   Size of this structure in bytes: set it before the call.
   */
  size_t size;
  /*
   1 if everything that the context's hints ask for holds, for every element.
   */
  int32_t holds;
  /*
   Elements.
   */
  int64_t elements;
  /*
   Elements whose bits changed.
   */
  int64_t changed;
  /*
   Element with the largest absolute error, and of max_range_error too.
   */
  int64_t worst_abs;
  /*
   Element with the largest relative error.
   */
  int64_t worst_rel;
  /*
   Element that kept the fewest mantissa bits.
   */
  int64_t worst_bits;
  /*
   Element that kept the fewest decimal digits.
   */
  int64_t worst_digits;
  /*
   First element that breaks the hints.
   */
  int64_t first_miss;
  /*
   What became of that element; empty if there is none.
   */
  char miss[256];
} knarr_validation;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Version of the library, such as "0.1.0".
 */
const char *knarr_version(void);

/*
 Message of the last call of this thread that failed: what, where, why, and what to do. Valid until another call
 of this thread fails; empty if none has.
 */
const char *knarr_last_error(void);

/*
 Initialises hints, stating nothing. 'size' is sizeof(knarr_hints).

 Pointers:
 `hints` is null or valid for a write of `size` bytes.
 */
knarr_status knarr_hints_init(knarr_hints *hints, size_t size);

/*
 States hints from text, such as "max_abs_error=0.01 goal=ratio chain='shuffle | zstd:3'": key=value, separated by
 blanks, line ends or ';', with '#' before comments. Keys are the names of the fields; speeds are written 300MB/s,
 2*network or 0.5*storage; quality=lossless takes all bounds back. On failure nothing is changed.

 Pointers:
 `hints` is null or points to hints; `words` is null or NUL-terminated.
 */
knarr_status knarr_hints_set(knarr_hints *hints, const char *words);

/*
 Writes what is stated as text that knarr_hints_set() takes. Like snprintf: 'text' is cut to 'capacity' bytes with its
 NUL, and 'length', unless null, becomes the whole length without it.

 Pointers:
 `hints` is null or points to hints; `text` is null or writable for `capacity` bytes; `length` is null or writable.
 */
knarr_status knarr_hints_print(const knarr_hints *hints, char *text, size_t capacity, size_t *length);

/*
 Makes a context from hints, which are copied; null hints state nothing. Free it with knarr_context_free().

 Pointers:
 `hints` is null or points to hints; `context` is null or writable.
 */
knarr_status knarr_context_create(const knarr_hints *hints, knarr_context **context);

/*
 Frees a context, which no thread may use any more. Null is allowed.

 Pointers:
 `context` is null, or came from knarr_context_create and was not freed.
 */
void knarr_context_free(knarr_context *context);

/*
 Bytes that the frame of an array of this type and shape takes at most, with any context.

 Pointers:
 `shape` is null or readable for `rank` numbers; `bound` is null or writable.
 */
knarr_status knarr_compress_bound(int32_t dtype, int32_t rank, const size_t *shape, size_t *bound);

/*
 Compresses an array into a frame, which says itself what it holds and is checksummed. Every frame is decoded and
 compared before it is returned; where a bound would not hold for every element it is lossless, or the call fails if
 the hints force the chain. Works in the calling thread and takes up to about five times the array in memory. The same
 array and hints give the same frame. 'dtype' is a knarr_dtype; 'shape' has 'rank' extents. 'frame_size' becomes the
 size of the frame, at most what knarr_compress_bound() says; if that is more than 'capacity' the call fails, and
 'frame_size' says what is needed.

 Pointers:
 `context` is null or a context; `source` is null or readable for the whole array; `shape` is null or readable for
 `rank` numbers; `frame` is null or writable for `capacity` bytes; `frame_size` is null or writable.
 */
knarr_status knarr_compress(const knarr_context *context,
                            const void *source,
                            int32_t dtype,
                            int32_t rank,
                            const size_t *shape,
                            void *frame,
                            size_t capacity,
                            size_t *frame_size);

/*
 Says what a frame holds, after checking it. Set info->size to sizeof(knarr_info) before.

 Pointers:
 `context` is null or a context; `frame` is null or readable for `frame_size` bytes; `info` is null or points to a
 structure that says its size.
 */
knarr_status knarr_inspect(const knarr_context *context, const void *frame, size_t frame_size, knarr_info *info);

/*
 Decompresses a frame, with any context, into 'destination', which has 'capacity' bytes. 'raw_size', unless null,
 becomes the number of bytes written. Type and shape are those of the frame: knarr_inspect().

 Pointers:
 `context` is null or a context; `frame` is null or readable for `frame_size` bytes; `destination` is null or writable
 for `capacity` bytes; `raw_size` is null or writable.
 */
knarr_status knarr_decompress(const knarr_context *context,
                              const void *frame,
                              size_t frame_size,
                              void *destination,
                              size_t capacity,
                              size_t *raw_size);

/*
 Decompresses a frame and compares it with the original by the hints of the context. 'observed', unless null and
 initialised with knarr_hints_init(), becomes the accuracy: each field is what was kept, so a hint holds where the
 field is no worse. In it max_rel_error, significant_bits and significant_digits leave out elements whose error is at
 most the finest_abs_error of the hints, and finest_abs_error is the largest error of those; exact_up_to is the largest
 value up to which all are exact, exact_from the smallest from which on they are. 'result', with its size set, says
 whether everything holds and where each measure is worst. A quality that does not hold is no error.

 Pointers:
 As for knarr_compress; `frame` is null or readable for `frame_size` bytes; `observed` and `result` are null or point
 to structures that say their size.
 */
knarr_status knarr_validate(const knarr_context *context,
                            const void *frame,
                            size_t frame_size,
                            const void *original,
                            int32_t dtype,
                            int32_t rank,
                            const size_t *shape,
                            knarr_hints *observed,
                            knarr_validation *result);

/*
 Says in words which chain the array would get and why: what was found in the data, and every candidate. The first
 word up to " for goal" is the chain. 'text', 'capacity' and 'length' as for knarr_hints_print().

 Pointers:
 As for knarr_compress and knarr_hints_print.
 */
knarr_status knarr_explain(const knarr_context *context,
                           const void *source,
                           int32_t dtype,
                           int32_t rank,
                           const size_t *shape,
                           char *text,
                           size_t capacity,
                           size_t *length);

/*
 The client data (cd_values) that ask Knarr's HDF5 filter (KNARR_HDF5_FILTER) for what is hinted. 20 words are always
 enough; 'count' becomes how many there are. The chain and the profile are not for the filter.

 Pointers:
 `hints` is null or points to hints; `words` is null or writable for `capacity` numbers; `count` is null or writable.
 */
knarr_status knarr_filter_words(const knarr_hints *hints, uint32_t *words, size_t capacity, size_t *count);

/*
 Opens the directory of a program's checkpoints, which is made if it is not there. 'options' are words such as "keep=3
 goal=ratio", or null: keep (sets that stay), replace (yes: steps that are there may be written again), spool (directory
 where arrays lie until they are packed; memory), jobs (threads that pack), max_mem, group_size, scheme, block_size,
 goal, bundle_below, verify; memory (directory in the memory of each node, such as /dev/shm, where steps are complete
 first), memory_keep (sets that stay there), local (directory on a disk of each node), local_keep, local_every (which
 steps come from memory to it: "5", or "10m"), flush (which steps come to the directory: "10", or "30m"), protect
 (partner, parity:8+1 or none). 'comm' is a table of the program's ranks, which belongs to Knarr from then on whatever
 this returns, or null for one process. Collective, as are all functions of a knarr_checkpoint but put and add_file:
 all ranks call them in the same order. An error of one rank is an error on all.

 Pointers:
 `directory` and `options` are NUL-terminated; `comm` is null or a struct knarr_comm; `checkpoint` is null or writable.
 */
knarr_status knarr_checkpoint_open(const char *directory,
                                   const char *options,
                                   const knarr_comm *comm,
                                   knarr_checkpoint **checkpoint);

/*
 Begins a step, counted from 0, after waiting for the one before; fails with what became of that, and then nothing is
 begun. What was put since a begin without commit is forgotten. KNARR_EXISTS if there is a checkpoint of this step.

 Pointers:
 `checkpoint` is null or a checkpoint.
 */
knarr_status knarr_checkpoint_begin(knarr_checkpoint *checkpoint, int64_t step);

/*
 Copies an array of this rank, which may be changed at once. It is a region of the global array 'name', whose extents
 are 'shape', that begins at 'start' (null: at the first element); 'count' are the extents of the region. With a null
 'shape' the array is this rank's own. 'dtype' is a knarr_dtype. Not collective. After an error the step cannot be
 committed.

 Pointers:
 `checkpoint` is null or a checkpoint; `name` is NUL-terminated; `count` and, unless null, `shape` and `start` are
 readable for `rank` numbers; `source` is readable for the whole region.
 */
knarr_status knarr_checkpoint_put(knarr_checkpoint *checkpoint,
                                  const char *name,
                                  const void *source,
                                  int32_t dtype,
                                  int32_t rank,
                                  const size_t *count,
                                  const size_t *shape,
                                  const size_t *start);

/*
 Adds a file of this rank, which a restart on as many ranks brings back as 'name', a path below a directory; null: the
 file's own name. It is read while it is packed: it must stay as it is until knarr_checkpoint_wait() returns. Not
 collective. After an error the step cannot be committed.

 Pointers:
 `checkpoint` is null or a checkpoint; `path` is NUL-terminated; `name` is null or NUL-terminated.
 */
knarr_status knarr_checkpoint_add_file(knarr_checkpoint *checkpoint, const char *path, const char *name);

/*
 Hands the step over and returns as soon as packing has begun, in a thread of one rank on each node that calls no MPI.

 Pointers:
 `checkpoint` is null or a checkpoint.
 */
knarr_status knarr_checkpoint_commit(knarr_checkpoint *checkpoint);

/*
 'done' becomes 1 if no step is under way, else 0. Fails with what became of the step, which is given up then; the sets
 that are there stay.

 Pointers:
 `checkpoint` is null or a checkpoint; `done` is null or writable.
 */
knarr_status knarr_checkpoint_test(knarr_checkpoint *checkpoint, int32_t *done);

/*
 'needed' becomes 1 if a checkpoint should be written now, else 0: when as much time has passed as loses the least to checkpoints and to
 failures, which come every 'mtbf' on average, or when the job ends before the program asks again. To be asked after each step of the
 program. Fails as knarr_checkpoint_test() does.

 Pointers:
 `checkpoint` is null or a checkpoint; `needed` is null or writable.
 */
knarr_status knarr_checkpoint_need(knarr_checkpoint *checkpoint,
                                   int32_t *needed);

/*
 Waits until no step is under way. Fails as knarr_checkpoint_test() does.

 Pointers:
 `checkpoint` is null or a checkpoint.
 */
knarr_status knarr_checkpoint_wait(knarr_checkpoint *checkpoint);

/*
 Writes what went wrong without being an error of a call, one a line, and forgets it: on rank 0, damaged sets that a
 restart passed over, and old ones that could not be removed. 'text', 'capacity' and 'length' as for
 knarr_hints_print().

 Pointers:
 `checkpoint` is null or a checkpoint; the others as for knarr_hints_print.
 */
knarr_status knarr_checkpoint_warnings(knarr_checkpoint *checkpoint, char *text, size_t capacity, size_t *length);

/*
 Opens the checkpoint of 'step', or with KNARR_LATEST the newest one that is whole; 'restart' becomes null if there is
 none of any step. With 'verify' not 0 all of it is read and checked first. Waits for the step under way.

 Pointers:
 `checkpoint` is null or a checkpoint; `restart` is null or writable.
 */
knarr_status knarr_checkpoint_restart(knarr_checkpoint *checkpoint,
                                      int64_t step,
                                      int32_t verify,
                                      knarr_restart **restart);

/*
 Waits for the step under way, says what became of it, and frees the checkpoint, whatever it returns. Null is allowed.

 Pointers:
 `checkpoint` is null, or came from knarr_checkpoint_open and was not closed.
 */
knarr_status knarr_checkpoint_close(knarr_checkpoint *checkpoint);

/*
 'step' becomes the step of the checkpoint, 'ranks' the number of ranks that made it. Either may be null.

 Pointers:
 `restart` is null or a restart; `step` and `ranks` are null or writable.
 */
knarr_status knarr_restart_about(const knarr_restart *restart, int64_t *step, int64_t *ranks);

/*
 Says what an array is: 'dtype' becomes a knarr_dtype, 'rank' its number of dimensions, 'shape', which has room for
 KNARR_MAX_RANK numbers, its extents, and 'is_global' 1 for global arrays, whose extents are those of the whole, 0 for
 arrays that this rank had of its own.

 Pointers:
 `restart` is null or a restart; `name` is NUL-terminated; the others are null or writable as stated.
 */
knarr_status knarr_restart_describe(const knarr_restart *restart,
                                    const char *name,
                                    int32_t *dtype,
                                    int32_t *rank,
                                    size_t *shape,
                                    int32_t *is_global);

/*
 Reads the region of a global array that begins at 'start' (null: at the first element) and has the extents 'count', on
 any number of ranks, or, with a null 'start' and its whole shape as 'count', the array that this rank had of its own.
 Where regions that were put overlap, the highest rank counts. Fails if no rank put a part of it. Not collective. What
 is read is checked.

 Pointers:
 `restart` is null or a restart; `name` is NUL-terminated; `count` and, unless null, `start` are readable for `rank`
 numbers; `destination` is writable for the whole region.
 */
knarr_status knarr_restart_read(const knarr_restart *restart,
                                const char *name,
                                void *destination,
                                int32_t dtype,
                                int32_t rank,
                                const size_t *count,
                                const size_t *start);

/*
 Brings back the files that this rank added, below 'directory', on as many ranks as made the checkpoint. Files that are
 there are replaced if 'force' is not 0. Not collective.

 Pointers:
 `restart` is null or a restart; `directory` is NUL-terminated.
 */
knarr_status knarr_restart_files(const knarr_restart *restart, const char *directory, int32_t force);

/*
 Frees a restart, which no thread may use any more. Null is allowed.

 Pointers:
 `restart` is null, or came from knarr_checkpoint_restart and was not freed.
 */
void knarr_restart_free(knarr_restart *restart);

/*
 Begins a file that all ranks of a program write together: netCDF-4 (.nc), HDF5 (.h5) or a Zarr v3 store (.zarr).
 'options' are words such as "goal=ratio replace=yes", or null: goal, portable, chain, chunks and bounds as for knarr
 repack, verify (no: chunks are not proven), replace (yes: a file that is there is replaced), spool (directory where values
 lie until the file is made; memory), jobs (threads that make it), max_mem. 'comm' is a table of the program's ranks, which
 belongs to Knarr from then on whatever this returns, or null for one process; the ranks may be on several nodes. Collective, as
 are end_step, commit, test, wait and close: all ranks call them in the same order. An error of one rank is an error on
 all. The file appears under its name when it is complete and on the disk, or not at all.

 libknarr.a is without the functions knarr_output_...: they bring an HDF5 of their own.

 Pointers:
 `path` and `options` are NUL-terminated; `comm` is null or a struct knarr_comm; `output` is null or writable.
 */
knarr_status knarr_output_create(const char *path,
                                 const char *options,
                                 const knarr_comm *comm,
                                 knarr_output **output);

/*
 Defines a dimension. With the length KNARR_UNLIMITED it can grow, and is as long as what is put along it. Not collective,
 but all ranks define the same things in the same order; they may do so until the commit. After an error of a function
 that is not collective the file is not written: what is collective then fails on all ranks.

 Pointers:
 `output` is null or an output; `name` is NUL-terminated.
 */
knarr_status knarr_output_def_dim(knarr_output *output,
                                  const char *name,
                                  size_t length);

/*
 Defines a variable of a knarr_dtype along 'rank' dimensions that are defined, the slowest first. 'wishes' are words such
 as "max_abs_error=0.01 chunks=1x90x180", or null: bounds, quality, chain and chunks of this variable as in knarr.toml. As
 for knarr_output_def_dim().

 Pointers:
 `output` is null or an output; `name` and, unless null, `wishes` are NUL-terminated; `dimensions` is readable for `rank`
 pointers to NUL-terminated names.
 */
knarr_status knarr_output_def_var(knarr_output *output,
                                  const char *name,
                                  int32_t dtype,
                                  int32_t rank,
                                  const char *const *dimensions,
                                  const char *wishes);

/*
 Sets an attribute that is text, of a variable, or with a null 'variable' of the file. As for knarr_output_def_dim().

 Pointers:
 `output` is null or an output; `name`, `value` and, unless null, `variable` are NUL-terminated.
 */
knarr_status knarr_output_put_att_text(knarr_output *output, const char *variable, const char *name, const char *value);

/*
 Sets an attribute of 'count' numbers of a knarr_dtype, of a variable, or with a null 'variable' of the file. '_FillValue'
 of a variable, one number of its type, is what elements are that nobody puts; without it they are netCDF's fill values. As
 for knarr_output_def_dim().

 Pointers:
 `output` is null or an output; `name` and, unless null, `variable` are NUL-terminated; `values` is readable for all
 numbers.
 */
knarr_status knarr_output_put_att(knarr_output *output,
                                  const char *variable,
                                  const char *name,
                                  int32_t dtype,
                                  size_t count,
                                  const void *values);

/*
 Copies an array of this rank, which may be changed at once: the region of the variable 'name' that begins at 'start'
 (null: at the first element) and has the extents 'count'. Where regions overlap, what was put in a later step counts, in
 one step what the higher rank put, and of one rank the last. Not collective. After an error the file is not written.

 Pointers:
 `output` is null or an output; `name` is NUL-terminated; `count` and, unless null, `start` are readable for `rank`
 numbers; `source` is readable for the whole region.
 */
knarr_status knarr_output_put(knarr_output *output,
                              const char *name,
                              const void *source,
                              int32_t dtype,
                              int32_t rank,
                              const size_t *count,
                              const size_t *start);

/*
 Ends a step: what is put afterwards counts where it overlaps with what was put before. The ranks compare what they
 defined, and learn of each other's errors.

 Pointers:
 `output` is null or an output.
 */
knarr_status knarr_output_end_step(knarr_output *output);

/*
 Hands all values over and returns as soon as the file is being made, in a thread of rank 0 that calls no MPI. Nothing can
 be defined or put afterwards.

 Pointers:
 `output` is null or an output.
 */
knarr_status knarr_output_commit(knarr_output *output);

/*
 'done' becomes 1 if the file is complete, else 0. Fails if there is no file, and before the commit.

 Pointers:
 `output` is null or an output; `done` is null or writable.
 */
knarr_status knarr_output_test(knarr_output *output, int32_t *done);

/*
 Waits until the file is complete. Fails as knarr_output_test() does.

 Pointers:
 `output` is null or an output.
 */
knarr_status knarr_output_wait(knarr_output *output);

/*
 Writes notes on the file that is complete, one a line: wishes that were not met, and what readers do not find. 'text',
 'capacity' and 'length' as for knarr_hints_print().

 Pointers:
 `output` is null or an output; the others as for knarr_hints_print.
 */
knarr_status knarr_output_notes(const knarr_output *output, char *text, size_t capacity, size_t *length);

/*
 Commits the file unless that was done, waits until it is complete, and frees the output, whatever it returns. Null is
 allowed.

 Pointers:
 `output` is null, or came from knarr_output_create and was not closed.
 */
knarr_status knarr_output_close(knarr_output *output);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KNARR_H */
