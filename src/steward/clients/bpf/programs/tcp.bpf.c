// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * TCP: segments sent again, and the smoothed round-trip time at each segment that arrives.
 *
 * A socket knows its control group in cgroup v2 only. With a v1 controller these figures are those
 * of the machine.
 */
#include "counters.h"

static __always_inline struct row *row_of_socket(struct sock *socket)
{
	return row_of(config.controller < 0 ? socket->sk_cgrp_data.cgroup->kn->id : 0);
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb, struct sock *socket)
{
	struct row *row = row_of_socket(socket);

	if (row)
		add(row->tcp_retransmits, 1);
	return 0;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(tcp_probe, struct sock *socket)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(socket);
	struct row *row;
	__u64 rtt_ns;

	if (!tcp)
		return 0;
	rtt_ns = (tcp->srtt_us >> 3) * 1000ULL; /* the kernel keeps eighths */
	if (!rtt_ns) /* not measured yet */
		return 0;
	row = row_of_socket(socket);
	if (!row)
		return 0;
	add(row->tcp_rtt_count, 1);
	add_to_histogram(row->tcp_rtt_histogram, rtt_ns);
	return 0;
}
