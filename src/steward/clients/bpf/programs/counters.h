/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the programs share: one row of counters per owner, and what is remembered about a task.
 *
 * An owner is a control group (the inode number of its folder) or a disk (its device number with
 * OWNER_IS_DISK set). It gets a slot at its first event, inside the kernel, so that nothing is
 * missed before user space knows about a job. Slot 0 is shared by all owners without a slot.
 * Rows exist once per stripe (a group of CPUs), so that CPUs rarely write to the same cache line.
 * User space maps `rows`, `notes` and `waits` and reads them without a system call.
 *
 * Each probe set is an object of its own; user space makes all of them use the same maps.
 */
#ifndef STEWARD_COUNTERS_H
#define STEWARD_COUNTERS_H

#include "kernel.h"

#define BUCKETS 49
#define SYSCALLS 512 /* numbers below this are looked up in `calls` */
#define COUNTED_CALLS 8
#define OWNER_IS_DISK (1ULL << 62)

/* What a task that does not run waits for. `calls` has the causes from CAUSE_LOCK on. */
enum cause {
	CAUSE_OTHER,
	CAUSE_PREEMPTED,
	CAUSE_DISK,
	CAUSE_UNINTERRUPTIBLE,
	CAUSE_LOCK,
	CAUSE_NETWORK,
	CAUSE_FILE,
	CAUSE_SLEEP,
	CAUSES,
};

/* Counters first, histograms last: histograms are read less often. See `columns.py`. */
struct row {
	__u64 runq_count;
	__u64 runq_ns;
	__u64 wait_count[CAUSES];
	__u64 wait_ns[CAUSES];
	__u64 block_count[2];
	__u64 block_bytes[2];
	__u64 block_ns[2];
	__u64 faults_count;
	__u64 tcp_retransmits;
	__u64 tcp_rtt_count;
	__u64 calls_count[COUNTED_CALLS];
	__u64 calls_ns[COUNTED_CALLS];
	__u64 cuda_launches_count;
	__u64 cuda_copies_to_device_count;
	__u64 cuda_copies_to_device_bytes;
	__u64 cuda_copies_to_host_count;
	__u64 cuda_copies_to_host_bytes;
	__u64 cuda_copies_other_count;
	__u64 cuda_copies_other_bytes;
	__u64 cuda_synchronise_count;
	__u64 cuda_synchronise_ns;
	__u64 cuda_allocations_count;
	__u64 cuda_allocations_bytes;
	__u64 nvtx_pushes_count;
	__u64 nvtx_pops_count;
	__u64 runq_histogram[BUCKETS];
	__u64 block_histogram[BUCKETS];
	__u64 tcp_rtt_histogram[BUCKETS];
};

/* How often something happened that an operator should know about. */
struct notes {
	__u64 new_slots;
	__u64 full_slots; /* an event whose owner found no slot left */
	__u64 lost_tasks; /* a task about which nothing could be remembered */
	__u64 lost_requests; /* a block request that could not be remembered */
	__u64 used_waits; /* how many elements of `waits` were ever taken */
};

/* One system call: what a task waits for that sleeps in it, and 1 + its index in calls_*. */
struct call {
	__u32 cause;
	__u32 counted; /* 0: not counted */
};

struct task {
	__u32 wait; /* 1 + index into `waits`; 0: none yet */
	__u32 call; /* the counted call that it is in: 1 + index; 0: none */
	__u64 call_ns; /* since when */
	__u64 cuda_ns; /* since when it is in a CUDA call that is timed; 0: it is not */
};

/* Set by user space before loading; the verifier then knows the values and drops dead branches. */
const volatile struct {
	__u32 slots;
	__u32 stripe_mask;
	__s32 controller; /* index of the cgroup v1 controller; -1: cgroup v2 */
	__u32 switch_has_state; /* sched_switch has a fourth argument (since Linux 5.18) */
} config = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32); /* set by user space */
	__type(key, __u64); /* owner */
	__type(value, __u32); /* slot */
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 2); /* set by user space, which fills it */
	__uint(value_size, sizeof(__u32));
} free_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2); /* set by user space: slots times stripes */
	__type(key, __u32);
	__type(value, struct row);
} rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct notes);
} notes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SYSCALLS);
	__type(key, __u32); /* number of a system call */
	__type(value, struct call);
} calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

#define add(counter, value) ((void)__sync_fetch_and_add(&(counter), (value)))

#define note(name)                                               \
	({                                                       \
		__u32 _zero = 0;                                 \
		struct notes *_notes;                            \
		_notes = bpf_map_lookup_elem(&notes, &_zero);    \
		if (_notes)                                      \
			add(_notes->name, 1);                    \
	})

/* Give a new owner a slot, or return 0 where none is left. */
static __noinline __u32 take_slot(__u64 owner)
{
	__u32 slot = 0;
	__u32 *taken;

	if (bpf_map_pop_elem(&free_slots, &slot)) {
		note(full_slots);
		return 0;
	}
	if (!bpf_map_update_elem(&slots, &owner, &slot, BPF_NOEXIST)) {
		note(new_slots);
		return slot;
	}
	bpf_map_push_elem(&free_slots, &slot, 0);
	taken = bpf_map_lookup_elem(&slots, &owner); /* by another CPU in the meantime */
	if (taken)
		return *taken;
	note(full_slots);
	return 0;
}

static __always_inline struct row *row_of(__u64 owner)
{
	__u32 *slot = bpf_map_lookup_elem(&slots, &owner);
	__u32 index = slot ? *slot : take_slot(owner);

	index += (bpf_get_smp_processor_id() & config.stripe_mask) * config.slots;
	return bpf_map_lookup_elem(&rows, &index);
}

static __always_inline __u64 cgroup_id(struct task_struct *task)
{
	struct css_set *set = task->cgroups;
	struct cgroup_subsys_state **state;

	if (config.controller < 0)
		return set->dfl_cgrp->kn->id;
	state = (void *)set->subsys + config.controller * sizeof(*state);
	return (*state)->cgroup->kn->id;
}

static __always_inline struct row *row_of_task(struct task_struct *task)
{
	return row_of(cgroup_id(task));
}

/* What is remembered about a task. NULL if nothing is, or if that cannot be created. */
static __always_inline struct task *memory_of(struct task_struct *task, bool create)
{
	struct task *memory;

	memory = bpf_task_storage_get(&tasks, task, NULL, create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
	if (!memory && create)
		note(lost_tasks);
	return memory;
}

/*
 * The bucket of a duration: two per power of two, in units of 1024 ns. Bucket 0 is below one unit,
 * the last one is everything from 12.9 s on. The edges are in `histogram.py`.
 */
static __always_inline __u32 bucket_of(__u64 ns)
{
	__u64 units = ns >> 10, rest;
	__u32 high = 0;

	if (!units)
		return 0;
	if (units >= 1 << 24)
		units = (1 << 24) - 1;
	rest = units;
#define HALVE(bits)                      \
	do {                             \
		if (rest >> (bits)) {    \
			rest >>= (bits); \
			high += (bits);  \
		}                        \
	} while (0)
	HALVE(16);
	HALVE(8);
	HALVE(4);
	HALVE(2);
	HALVE(1);
#undef HALVE
	return 1 + 2 * high + (high ? units >> (high - 1) & 1 : 0);
}

#define add_to_histogram(histogram, ns)                \
	do {                                           \
		__u32 _bucket = bucket_of(ns);         \
		if (_bucket < BUCKETS)                 \
			add((histogram)[_bucket], 1);  \
	} while (0)

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#endif
