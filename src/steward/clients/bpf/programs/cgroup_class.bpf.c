// A classifier for traffic control: packets of one cgroup go to one class. Both numbers stand in the
// object as marks, which are replaced before it is loaded (clients/linux/traffic.py).
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const volatile __u64 cgroup_id = 0x5354455741524447ULL;
const volatile __u32 class_id = 0x53434c53U;

SEC("tc")
int to_class(struct __sk_buff *skb)
{
	return bpf_skb_cgroup_id(skb) == cgroup_id ? (int)class_id : 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
