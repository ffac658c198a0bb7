// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * How long tasks wait for a CPU, and what they wait for while they do not want one.
 *
 * A task that leaves a CPU is stamped with the time and the cause, and with a second time when it is
 * woken. Both waits are counted when it runs again. `count_ongoing`, which user space runs before each
 * reading, counts the waits that still last, so that an hour of waiting is 3,600 seconds of it and not
 * one big step. Stamps are in an array of their own because going through it is several times
 * cheaper than an iterator over tasks, which touches a dozen cache lines for each.
 *
 * The hooks of one task run under its run queue's lock, one after the other; only `count_ongoing` runs
 * beside them. So a stamp is taken by an atomic exchange, and whoever takes it counts the time.
 */
#include "counters.h"

#define MAX_WAITS 65536
#define STARVING_NS 100000000ULL
#define PF_KTHREAD 0x00200000
#define TASK_UNINTERRUPTIBLE 0x0002
#define TASK_IS_DEAD 0x00b0 /* EXIT_DEAD, EXIT_ZOMBIE, TASK_DEAD */

struct wait {
	__u64 owner; /* when the wait began */
	__u64 off_ns; /* since when it sleeps; 0: it does not */
	__u64 ready_ns; /* since when it could run; 0: it runs or sleeps */
	__u32 cause;
	__u32 asleep; /* a kernel thread that sleeps: its sleep means nothing, its wait for a CPU does */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_WAITS);
	__type(key, __u32);
	__type(value, struct wait);
} waits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, MAX_WAITS);
	__uint(value_size, sizeof(__u32));
} free_waits SEC(".maps");

#define take(stamp) __sync_lock_test_and_set(&(stamp), 0) /* return it and leave 0 */
#define move(stamp, from, to) (__sync_val_compare_and_swap(&(stamp), (from), (to)) == (from))

/* Return 1 + the index of an element of `waits` for a new task, or 0 where none is left. */
static __noinline __u32 take_wait(void)
{
	__u32 index = 0, zero = 0;
	struct notes *counts;
	__u64 used;

	if (!bpf_map_pop_elem(&free_waits, &index))
		return index + 1;
	counts = bpf_map_lookup_elem(&notes, &zero);
	if (!counts)
		return 0;
	if (counts->used_waits < MAX_WAITS) {
		used = __sync_fetch_and_add(&counts->used_waits, 1);
		if (used < MAX_WAITS)
			return used + 1;
	}
	add(counts->lost_tasks, 1);
	return 0;
}

static __always_inline struct wait *wait_of(struct task_struct *task, bool create)
{
	struct task *memory = memory_of(task, create);
	__u32 index;

	if (!memory)
		return NULL;
	if (!memory->wait && create)
		memory->wait = take_wait();
	if (!memory->wait)
		return NULL;
	index = memory->wait - 1;
	return bpf_map_lookup_elem(&waits, &index);
}

static __always_inline __u32 cause_of(struct task_struct *task, unsigned int state)
{
	struct call *call;
	__u32 number;

	if (BPF_CORE_READ_BITFIELD(task, in_iowait)) /* its bit is not the same on all kernels */
		return CAUSE_DISK;
	if (state & TASK_UNINTERRUPTIBLE)
		return CAUSE_UNINTERRUPTIBLE;
	number = syscall_number((struct pt_regs *)bpf_task_pt_regs(task)); /* -1: in none */
	call = bpf_map_lookup_elem(&calls, &number);
	return call ? call->cause : CAUSE_OTHER;
}

/* Count a sleep from `off_ns` to `until_ns`. */
static __always_inline void add_sleep(struct row *row, struct wait *wait, __u64 off_ns, __u64 until_ns)
{
	__u32 cause = wait->cause;

	if (!off_ns || off_ns > until_ns || cause >= CAUSES)
		return;
	add(row->wait_ns[cause], until_ns - off_ns);
	add(row->wait_count[cause], 1);
}

/*
 * Kernels do not call sched_switch at every switch: on a Linux 6.18 guest a few in a second are
 * missing, by the count in /proc/stat. A task that stops running with its stamps still on is one of
 * those: count the sleep that it was woken from.
 */
static __always_inline void add_missed(struct wait *wait)
{
	__u64 off_ns = take(wait->off_ns), ready_ns = take(wait->ready_ns);
	struct row *row;

	if (!off_ns || ready_ns <= off_ns)
		return;
	row = row_of(wait->owner);
	if (row)
		add_sleep(row, wait, off_ns, ready_ns);
}

static __always_inline void switch_out(struct task_struct *task, unsigned int state, __u64 now_ns)
{
	struct wait *wait = wait_of(task, true);

	if (!wait)
		return;
	add_missed(wait);
	if (state & TASK_IS_DEAD)
		return;
	wait->owner = cgroup_id(task);
	if (!state) { /* it could go on running */
		wait->cause = CAUSE_PREEMPTED;
		wait->ready_ns = now_ns;
	} else if (task->flags & PF_KTHREAD) { /* it waits for work most of the time */
		wait->cause = CAUSE_OTHER;
		wait->asleep = 1;
	} else {
		wait->cause = cause_of(task, state);
		wait->off_ns = now_ns;
	}
}

static __always_inline void switch_in(struct task_struct *task, __u64 now_ns)
{
	struct wait *wait = wait_of(task, false);
	__u64 off_ns, ready_ns, slept_until_ns = now_ns;
	struct row *row;

	if (!wait)
		return;
	off_ns = take(wait->off_ns);
	ready_ns = take(wait->ready_ns);
	wait->asleep = 0;
	if (!(off_ns | ready_ns))
		return;
	row = row_of(wait->owner);
	if (!row)
		return;
	if (ready_ns && ready_ns <= now_ns) {
		__u64 waited_ns = now_ns - ready_ns;

		add(row->runq_ns, waited_ns);
		add(row->runq_count, 1);
		add_to_histogram(row->runq_histogram, waited_ns);
		if (wait->cause == CAUSE_PREEMPTED) {
			add(row->wait_ns[CAUSE_PREEMPTED], waited_ns);
			add(row->wait_count[CAUSE_PREEMPTED], 1);
		}
		slept_until_ns = ready_ns;
	}
	add_sleep(row, wait, off_ns, slept_until_ns);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now_ns = bpf_ktime_get_ns();
	unsigned int state = 0;

	if (prev->pid) { /* 0: the idle task */
		if (preempt)
			;
		else if (config.switch_has_state)
			state = ctx[3]; /* what the task itself has may be newer */
		else if (bpf_core_field_exists(prev->__state))
			state = prev->__state;
		else
			state = ((struct task_struct___before_5_14 *)prev)->state;
		switch_out(prev, state, now_ns);
	}
	if (next->pid)
		switch_in(next, now_ns);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	struct wait *wait = wait_of(task, false);

	if (wait && (wait->off_ns || wait->asleep)) /* else it runs and is woken for nothing */
		wait->ready_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *task)
{
	struct wait *wait = wait_of(task, true);

	if (!wait)
		return 0;
	wait->owner = cgroup_id(task);
	wait->cause = CAUSE_OTHER;
	wait->off_ns = 0;
	wait->asleep = 0;
	wait->ready_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(sched_process_free, struct task_struct *task)
{
	struct task *memory = memory_of(task, false);
	struct wait *wait;
	__u32 index;

	if (!memory || !memory->wait)
		return 0;
	index = memory->wait - 1;
	memory->wait = 0;
	wait = bpf_map_lookup_elem(&waits, &index);
	if (!wait)
		return 0;
	__builtin_memset(wait, 0, sizeof(*wait));
	bpf_map_push_elem(&free_waits, &index, 0);
	return 0;
}

struct reading {
	__u64 now_ns;
	__u64 used;
};

/*
 * Count a wait up to now and move its stamp on; the rest is counted when it ends. A wait for a CPU is
 * left alone until it is long, so that the histogram sees common ones whole.
 */
static long add_ongoing(struct bpf_map *map, const __u32 *index, struct wait *wait,
			struct reading *reading)
{
	__u64 now_ns = reading->now_ns, off_ns, ready_ns;
	struct row *row;

	if (*index >= reading->used)
		return 1; /* stop */
	off_ns = wait->off_ns;
	ready_ns = wait->ready_ns;
	if (off_ns && !ready_ns && off_ns < now_ns) {
		row = row_of(wait->owner);
		if (row && wait->cause < CAUSES && move(wait->off_ns, off_ns, now_ns))
			add(row->wait_ns[wait->cause & (CAUSES - 1)], now_ns - off_ns);
	} else if (!off_ns && ready_ns && ready_ns + STARVING_NS < now_ns) {
		row = row_of(wait->owner);
		if (!row || !move(wait->ready_ns, ready_ns, now_ns))
			return 0;
		add(row->runq_ns, now_ns - ready_ns);
		if (wait->cause == CAUSE_PREEMPTED)
			add(row->wait_ns[CAUSE_PREEMPTED], now_ns - ready_ns);
	}
	return 0;
}

SEC("raw_tp") /* attached to nothing: user space runs it */
int count_ongoing(void *ctx)
{
	struct reading reading = { .now_ns = bpf_ktime_get_ns() };
	struct notes *counts;
	__u32 zero = 0;

	counts = bpf_map_lookup_elem(&notes, &zero);
	if (!counts)
		return 0;
	reading.used = counts->used_waits;
	bpf_for_each_map_elem(&waits, add_ongoing, &reading, 0);
	return 0;
}
