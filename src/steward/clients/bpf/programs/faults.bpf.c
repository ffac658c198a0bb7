// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Page faults of programs. Only x86 and RISC-V have this hook. */
#include "counters.h"

SEC("tp_btf/page_fault_user")
int BPF_PROG(page_fault_user)
{
	struct row *row = row_of_task(bpf_get_current_task_btf());

	if (row)
		add(row->faults_count, 1);
	return 0;
}
