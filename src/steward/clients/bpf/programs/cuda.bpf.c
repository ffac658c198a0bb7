// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Calls of the CUDA driver library (launches, copies, waiting, memory) and NVTX ranges.
 *
 * User space attaches each program to the functions that it is for: see `cuda_libraries.py`.
 */
#include "counters.h"

/* The arguments of the function at whose beginning a probe runs, from 0 on. */
#define ARGUMENT(regs, x86_64, number)                                                 \
	(ON_X86_64 ? BPF_CORE_READ((struct pt_regs___x86_64 *)(regs), x86_64)          \
		   : BPF_CORE_READ((struct pt_regs___aarch64 *)(regs), regs[number]))

#define COUNT_CALLS(name)                                                              \
	SEC("uprobe")                                                                  \
	int name(struct pt_regs *regs)                                                 \
	{                                                                              \
		struct row *row = row_of_task(bpf_get_current_task_btf());             \
                                                                                       \
		if (row)                                                               \
			add(row->name##_count, 1);                                     \
		return 0;                                                              \
	}

#define COUNT_CALLS_AND_BYTES(name, x86_64, number)                                    \
	SEC("uprobe")                                                                  \
	int name(struct pt_regs *regs)                                                 \
	{                                                                              \
		__u64 bytes = ARGUMENT(regs, x86_64, number);                          \
		struct row *row = row_of_task(bpf_get_current_task_btf());             \
                                                                                       \
		if (row) {                                                             \
			add(row->name##_count, 1);                                     \
			add(row->name##_bytes, bytes);                                 \
		}                                                                      \
		return 0;                                                              \
	}

COUNT_CALLS(cuda_launches)
COUNT_CALLS_AND_BYTES(cuda_copies_to_device, dx, 2)
COUNT_CALLS_AND_BYTES(cuda_copies_to_host, dx, 2)
COUNT_CALLS_AND_BYTES(cuda_copies_other, dx, 2)
COUNT_CALLS_AND_BYTES(cuda_allocations, si, 1)
COUNT_CALLS(nvtx_pushes)
COUNT_CALLS(nvtx_pops)

SEC("uprobe")
int cuda_synchronise(struct pt_regs *regs)
{
	struct task *memory = memory_of(bpf_get_current_task_btf(), true);

	if (memory)
		memory->cuda_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("uretprobe")
int cuda_synchronise_end(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task *memory = memory_of(task, false);
	struct row *row;
	__u64 took_ns;

	if (!memory || !memory->cuda_ns)
		return 0;
	took_ns = bpf_ktime_get_ns() - memory->cuda_ns;
	memory->cuda_ns = 0;
	row = row_of_task(task);
	if (!row)
		return 0;
	add(row->cuda_synchronise_count, 1);
	add(row->cuda_synchronise_ns, took_ns);
	return 0;
}
