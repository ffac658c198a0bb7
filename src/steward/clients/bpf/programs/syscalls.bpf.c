// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* How many of the system calls that data loaders live on a job makes, and how long they take. */
#include "counters.h"

/* Return 1 + the index of a counted call, 0 for all others. */
static __always_inline __u32 counted_call(__u32 number)
{
	struct call *call = bpf_map_lookup_elem(&calls, &number);

	return call ? call->counted : 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long number)
{
	__u32 counted = counted_call(number);
	struct task *memory;

	if (!counted)
		return 0;
	memory = memory_of(bpf_get_current_task_btf(), true);
	if (!memory)
		return 0;
	memory->call = counted;
	memory->call_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs)
{
	struct task_struct *task;
	struct task *memory;
	struct row *row;
	__u64 took_ns;
	__u32 index;

	if (!counted_call(syscall_number(regs)))
		return 0;
	task = bpf_get_current_task_btf();
	memory = memory_of(task, false);
	if (!memory || !memory->call)
		return 0;
	took_ns = bpf_ktime_get_ns() - memory->call_ns;
	index = memory->call - 1;
	memory->call = 0;
	row = row_of_task(task);
	if (!row || index >= COUNTED_CALLS)
		return 0;
	add(row->calls_ns[index], took_ns);
	add(row->calls_count[index], 1);
	return 0;
}
