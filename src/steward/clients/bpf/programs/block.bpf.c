// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* How long disks take, from handing a request to the device until it is done, by device. */
#include "counters.h"

#define REQ_OP_MASK 0xff
#define REQ_OP_WRITE 1 /* reads are 0; flushes, discards and the like are above and move no data */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* requests on their way at one time */
	__type(key, struct request *);
	__type(value, __u64); /* when it was issued */
} requests SEC(".maps");

static __always_inline __u64 owner_of(struct request *request)
{
	struct gendisk *disk;

	if (bpf_core_field_exists(((struct request_queue *)0)->disk))
		disk = request->q->disk;
	else
		disk = ((struct request___before_5_17 *)request)->rq_disk;
	return OWNER_IS_DISK | disk->part0->bd_dev;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *request)
{
	__u64 now_ns = bpf_ktime_get_ns();

	if (bpf_map_update_elem(&requests, &request, &now_ns, BPF_ANY))
		note(lost_requests);
	return 0;
}

/* A request that is done in parts has its bytes counted at each part, its time at the first. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *request, int error, unsigned int bytes)
{
	__u32 operation = request->cmd_flags & REQ_OP_MASK;
	__u64 now_ns, took_ns, *issued_ns;
	struct row *row;

	if (operation > REQ_OP_WRITE)
		return 0;
	row = row_of(owner_of(request));
	if (!row)
		return 0;
	add(row->block_bytes[operation], bytes);
	issued_ns = bpf_map_lookup_elem(&requests, &request);
	if (!issued_ns)
		return 0;
	now_ns = bpf_ktime_get_ns();
	took_ns = now_ns > *issued_ns ? now_ns - *issued_ns : 0;
	bpf_map_delete_elem(&requests, &request);
	add(row->block_count[operation], 1);
	add(row->block_ns[operation], took_ns);
	add_to_histogram(row->block_histogram, took_ns);
	return 0;
}
