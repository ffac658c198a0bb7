/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The kernel's types, reduced to the fields that the programs read. Offsets are not those written
 * here: clang records each access (preserve_access_index) and libbpf relocates it to the running
 * kernel (CO-RE). A name that ends in ___something is another version of the same type.
 */
#ifndef STEWARD_KERNEL_H
#define STEWARD_KERNEL_H

#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int pid;
	unsigned in_iowait : 1;
	struct css_set *cgroups;
};

struct task_struct___before_5_14 {
	volatile long state;
};

struct block_device {
	__u32 bd_dev;
};

struct gendisk {
	struct block_device *part0;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
};

struct request___before_5_17 {
	struct gendisk *rq_disk;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock {
	struct sock_cgroup_data sk_cgrp_data;
};

struct tcp_sock {
	__u32 srtt_us;
};

struct pt_regs___x86_64 {
	unsigned long cx, dx, si, di;
	unsigned long orig_ax;
};

struct pt_regs___aarch64 {
	__u64 regs[31];
	int syscallno;
};

#pragma clang attribute pop

struct bpf_map;
struct pt_regs;

/* One object serves both processors: which of the two versions of pt_regs fits is known at load. */
#define ON_X86_64 bpf_core_field_exists(((struct pt_regs___x86_64 *)0)->orig_ax)

static __always_inline long syscall_number(const struct pt_regs *regs)
{
	if (ON_X86_64)
		return ((const struct pt_regs___x86_64 *)regs)->orig_ax;
	return ((const struct pt_regs___aarch64 *)regs)->syscallno;
}

#endif
