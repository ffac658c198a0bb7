"""Each format, with a few rows as its publishers write them, and with rows that go wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.model.trace import RowFault, Trace
from steward.sim.traces import TRACE_READERS, read_nodes, read_pods, read_trace, trace_names
from steward.sim.traces.formats import head_of


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def fault(trace: Trace, words: str) -> RowFault:
    found = [fault for fault in trace.faults if words in fault.reason]
    assert len(found) == 1, trace.faults
    return found[0]


def recognised(path: Path) -> list[str]:
    head = head_of(path)
    return [name for name, reader in TRACE_READERS.items() if reader.recognises(head)]


PHILLY = (
    "job_id,submit_s,duration_s,num_gpus,vc\n"
    "0,100,50,8,aa\n1,200,60,1,bb\n2,300,70,2,bb\n3,300,80,4,bb\n"
)


def test_philly_reads_all_virtual_clusters_as_tenants(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, "jobs.csv", PHILLY))

    assert trace.tenants == ("aa", "bb")
    assert trace.submit_s.tolist() == [100.0, 200.0, 300.0, 300.0]


def test_one_virtual_cluster_counts_its_time_and_ids_from_its_first_job(tmp_path: Path) -> None:
    written(tmp_path, "philly/jobs.csv.gz", PHILLY)

    by_place = read_trace(tmp_path / "philly" / "bb")
    by_column = read_trace(f"{tmp_path}/philly#vc=bb")

    assert by_place.name == "philly/bb"
    assert by_place.job_id.tolist() == ["0", "1", "2"]
    assert by_place.submit_s.tolist() == by_column.submit_s.tolist() == [0.0, 100.0, 100.0]
    assert by_place.tenants == ("bb",)


def test_a_part_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    written(tmp_path, "philly/jobs.csv.gz", PHILLY)

    with pytest.raises(StewardError, match="no row has vc = 'cc'; there are: aa, bb"):
        read_trace(tmp_path / "philly" / "cc")
    with pytest.raises(StewardError, match="no column 'user' to pick by"):
        read_trace(f"{tmp_path}/philly#user=x")
    with pytest.raises(StewardError, match="not COLUMN=VALUE"):
        read_trace(f"{tmp_path}/philly#bb")
    with pytest.raises(StewardError, match="there is no 'bb/x' in it"):
        read_trace(tmp_path / "philly" / "bb" / "x")


def test_a_table_with_more_than_phillys_columns_loses_none_of_them(tmp_path: Path) -> None:
    text = "job_id,submit_s,duration_s,num_gpus,vc,user,state\n0,1,5,8,aa,ann,done\n"

    trace = read_trace(written(tmp_path, "jobs.csv", text))

    assert (trace.tenants, trace.users) == (("aa",), ("ann",))


def test_the_raw_philly_log_sums_attempts_and_says_what_never_ran(tmp_path: Path) -> None:
    def attempt(start: str | None, end: str | None, gpus: int) -> dict[str, object]:
        places = [{"ip": "m1", "gpus": [f"gpu{i}" for i in range(gpus)]}]
        return {"start_time": start, "end_time": end, "detail": places}

    jobs = [
        {
            "status": "Pass",
            "vc": "ee9e8c",
            "jobid": "application_1",
            "attempts": [
                attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23", 8),
                attempt("2017-10-07 01:13:30", "2017-10-07 01:14:30", 4),
                attempt("2017-10-07 02:00:00", None, 4),
            ],
            "submitted_time": "2017-10-07 01:11:39",
            "user": "ce2f4c",
        },
        {"status": "Killed", "vc": "x", "jobid": "application_2", "attempts": []}
        | {"submitted_time": "2017-10-07 01:00:00", "user": "u"},
        {"status": "Failed", "vc": "x", "jobid": "application_3", "user": "u"}
        | {"attempts": [attempt("None", "None", 1)], "submitted_time": "2017-10-07 01:00:00"},
        "not a job",
    ]
    path = written(tmp_path, "cluster_job_log", json.dumps(jobs))

    trace = read_trace(path)

    assert recognised(path) == ["philly-log"]
    assert (trace.duration_s.tolist(), trace.gpus.tolist()) == ([74.0 + 60.0], [4.0])
    assert (trace.users, trace.tenants) == (("ce2f4c",), ("ee9e8c",))
    assert fault(trace, "no attempt was recorded").rows == 1
    assert fault(trace, "both a start and an end").examples[0].startswith("job 3: ")
    assert fault(trace, "no job").rows == 1
    assert fault(trace, "not counted").kept


PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    "p0,12000,16384,1,1000,,LS,Running,0,100,10\n"
    "p1,6000,1,1,460,V100M16|V100M32,BE,Running,5,50,7\n"
    "p2,6000,1,4,1000,,Burstable,Running,6,50,7\n"
    "p3,6000,1,0,0,,BE,Running,7,50,8\n"
    "p4,6000,1,1,1000,,BE,Pending,8,50,\n"
)


def test_openb_pods_have_shares_of_gpus_and_times(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, "openb_pod_list_default.csv", PODS))

    assert trace.gpus.tolist() == [1.0, 0.46, 4.0, 0.0]
    assert trace.duration_s.tolist() == [90.0, 43.0, 43.0, 42.0]
    assert trace.gpu_types == ("V100M16|V100M32",)
    assert trace.priority.tolist() == [2, 0, 1, 0]
    assert (trace.cpus[0], trace.memory_bytes[0]) == (12.0, 2.0**34)
    assert fault(trace, "never scheduled").rows == 1
    assert fault(trace, "CPU job").kept


def test_openb_pods_without_times_come_in_order_and_stay(tmp_path: Path) -> None:
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1,1,1,500\np1,1,1,2,1000\n"
    untimed = read_trace(written(tmp_path, "openb_pod_list_multigpu20.csv", text))
    every = read_pods(written(tmp_path, "openb_pod_list_default.csv", PODS))

    assert untimed.submit_s.tolist() == [0.0, 1.0]
    assert every.job_id.tolist() == ["p0", "p1", "p2", "p3", "p4"]


def test_openb_nodes_become_machines(tmp_path: Path) -> None:
    text = "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,1024,2,P100\nn1,96000,2048,8,V100M32\n"
    text += "n2,32000,1024,0,\n"
    path = written(tmp_path, "openb_node_list_gpu_node.csv.gz", text)

    machines = read_nodes(path)

    assert machines.gpus.tolist() == [2, 8, 0]
    assert [machines.types[t] for t in machines.type] == ["P100", "V100M32", "cpu"]
    assert (machines.cpus.tolist(), machines.memory_bytes[1]) == ([64.0, 96.0, 32.0], 2.0**31)
    assert machines.total_gpus == 10
    with pytest.raises(StewardError, match="holds a list of nodes"):
        read_trace(path)


def test_a_folder_without_nodes_has_no_machines(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="no list of nodes"):
        read_nodes(tmp_path)
    with pytest.raises(StewardError, match="lacks cpu_milli"):
        read_nodes(written(tmp_path, "openb_node_list_gpu_node.csv.gz", "gpu,model,memory_mib\n"))


def test_the_pai_sample_has_no_gpus_and_says_so(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, "j.csv", "job_id,submit_s,duration_s,cpus\n0,0,9,3\n"))

    assert trace.gpus.tolist() == [3.0]
    assert fault(trace, "no GPU column").rows == 1


TASKS = (
    "j1,ps,1.0,Terminated,100.0,160.0,600.0,29.0,,\n"
    "j1,worker,2.0,Terminated,110.0,200.0,400.0,10.0,50.0,T4\n"
    "j2,tensorflow,1.0,Running,300.0,,600.0,29.0,100.0,MISC\n"
    "j3,worker,3.0,Failed,400.0,450.0,600.0,1.0,50.0,V100\n"
)


def test_pai_tasks_are_drawn_together_into_jobs(tmp_path: Path) -> None:
    path = written(tmp_path, "pai_task_table.csv", TASKS)
    bare = read_trace(path)
    written(tmp_path, "pai_job_table.csv", "j1,i1,ann,Terminated,90.0,200.0\n")
    named = read_trace(path)

    assert recognised(path) == ["pai-tasks"]
    assert bare.job_id.tolist() == ["j1", "j3"]
    assert bare.submit_s.tolist() == [100.0, 400.0]
    assert bare.duration_s.tolist() == [100.0, 50.0]
    assert bare.gpus.tolist() == [1.0, 2.0]
    assert bare.cpus.tolist() == [14.0, 18.0]
    assert bare.memory_bytes.tolist() == pytest.approx([49 * 2.0**30, 3 * 2.0**30])
    assert bare.gpu_types == ("T4", "V100")
    assert fault(bare, "not ended").examples == ("line 3: " + TASKS.splitlines()[2],)
    assert (named.users, named.submit_s[0]) == (("ann",), 90.0)


def test_the_pai_simulators_jobs_may_have_a_share_of_a_gpu(tmp_path: Path) -> None:
    trace = read_trace(
        written(
            tmp_path,
            "pai.csv",
            "job_id,user,gpu_type,num_inst,num_gpu,num_cpu,submit_time,duration,group\n"
            "a,u1,V100,2,0.5,6,1000,30,g1\n"
            "b,u1,MISC,1,,6,1001,30,g1\n",
        )
    )

    assert (trace.gpus.tolist(), trace.models, trace.gpu_types) == ([0.5], ("g1",), ("V100",))
    assert fault(trace, "gpus is missing").rows == 1


def test_helios_reads_times_without_zones_and_tenants(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "cluster_log.csv",
        "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,"
        "duration,queue\n"
        "1425511,uXBbc,vcJkd,train,1,4,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:11,"
        "2020-06-09 18:42:11,60,10\n"
        "1425512,uVMrF,vchbv,train,4,16,1,FAILED,2020-06-09 18:41:27,,,249,0\n"
        "1425513,uVMrF,vchbv,prep,0,16,1,COMPLETED,2020-06-09 18:41:28,,,249,0\n",
    )

    trace = read_trace(path)

    assert recognised(path)[0] == "helios"
    assert trace.submit_s.tolist() == [0.0, 26.0]
    assert trace.duration_s.tolist() == [60.0, 249.0]
    assert (trace.tenants, trace.models) == (("vcJkd", "vchbv"), ("train",))
    assert fault(trace, "gpus is 0").rows == 1


def test_acme_takes_the_run_time_even_where_the_log_counts_waiting(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "trace_kalos.csv",
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,type,state,submit_time,start_time,"
        "end_time,duration,queue,gpu_time\n"
        "dlc1,uf794,8,64,960,1000,Pretrain,FAILED,2023-05-17 11:00:58+00:00,"
        "2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,18,10.0,1152.0\n"
        "dlc2,uf794,1,8,96,100,Evaluation,COMPLETED,2023-05-17 19:01:58+08:00,"
        "2023-05-17 19:01:58+08:00,2023-05-17 19:02:58+08:00,60,0.0,480.0\n",
    )

    trace = read_trace(path)

    assert recognised(path)[0] == "acme"
    assert trace.duration_s.tolist() == [8.0, 60.0]
    assert trace.submit_s.tolist() == [0.0, 60.0]
    assert trace.models == ("Pretrain", "Evaluation")
    assert trace.memory_bytes.tolist() == [8e12, 1e11]
    assert fault(trace, "end - start is taken").rows == 1


GAVEL = (
    "trace,job_id,job_type,total_steps,scale_factor,priority_weight,slo,arrival_s\n"
    "one,0,ResNet-18 (batch size 128),1000,4,1,-1,0\n"
    "one,1,A3C,1000,2,1,500,10\n"
    "one,2,Unheard of,1000,1,1,-1,20\n"
    "two,0,A3C,1000,1,1,-1,0\n"
)
SPEEDS = (
    "worker_type,job_type,scale_factor,steps_per_s\n"
    "k80,A3C,1,1.0\nv100,A3C,1,5.0\n"
    "v100,ResNet-18 (batch size 128),1,10.0\nv100,ResNet-18 (batch size 128),4,20.0\n"
)


def test_gavel_divides_steps_by_the_measured_speed(tmp_path: Path) -> None:
    written(tmp_path, "gavel/jobs_physical_cluster.csv.gz", GAVEL)
    with pytest.raises(StewardError, match="table of speeds"):
        read_trace(tmp_path / "gavel" / "one")
    written(tmp_path, "gavel/throughputs_solo.csv.gz", SPEEDS)

    trace = read_trace(tmp_path / "gavel" / "one")

    assert trace.duration_s.tolist() == [50.0, 200.0]
    assert trace.batch[0] == 128.0
    assert math.isnan(trace.deadline_s[0])
    assert trace.deadline_s[1] == 500.0
    assert fault(trace, "next smaller").examples == ("line 3: one,1,A3C,1000,2,1,500,10",)
    assert fault(trace, "never measured").rows == 1
    folder = str(tmp_path / "gavel")
    assert trace_names(folder) == (f"{folder}/one", f"{folder}/two")
    assert trace_names(f"{folder}/one") == (f"{folder}/one",)


def test_gavels_philly_has_virtual_clusters_as_tenants(tmp_path: Path) -> None:
    text = (
        "seed,vc,job_id,job_type,total_steps,scale_factor,arrival_s\n"
        "0,aa,0,A3C,10,1,5\n0,bb,0,A3C,20,1,2\n1,aa,0,A3C,30,1,0\n"
    )
    written(tmp_path, "gavel/jobs_msr.csv.gz", text)
    written(tmp_path, "gavel/throughputs_solo.csv.gz", SPEEDS)

    whole = read_trace(tmp_path / "gavel" / "msr")
    part = read_trace(tmp_path / "gavel" / "msr" / "1" / "aa")

    assert whole.job_id.tolist() == ["bb/0", "aa/0"]
    assert whole.tenants == ("bb", "aa")
    assert (part.job_id.tolist(), part.duration_s.tolist()) == (["0"], [6.0])


def test_shockwave_gives_its_durations(tmp_path: Path) -> None:
    text = (
        "trace,job_id,job_type,total_steps,scale_factor,mode,priority_weight,slo,duration_s,"
        "arrival_s\n120,0,LM (batch size 10),134583,1,gns,1,-1,1418,0\n"
    )

    trace = read_trace(written(tmp_path, "jobs.csv", text))

    assert (trace.duration_s.tolist(), trace.models) == ([1418.0], ("LM (batch size 10)",))


def test_pollux_and_sia_take_the_time_alone_from_measured_profiles(tmp_path: Path) -> None:
    header = "set,workload,name,submit_s,application,num_replicas,batch_size\n"
    placements = "application,{}placement,local_bsz,step_time_s,sync_time_s\n"
    counts = "application,{}num_nodes,num_replicas,local_bsz,step_time_s,sync_time_s\n"
    written(tmp_path, "pollux/profile_placements.csv.gz", placements.format("") + "net,1,8,2,0\n")
    written(tmp_path, "pollux/profile_scalability.csv.gz", counts.format("") + "net,2,2,8,3,1\n")
    written(
        tmp_path,
        "pollux/profile_validation.csv.gz",
        "application,batch_size,epoch_index,progress,iteration,metric,grad_sqr,grad_var\n"
        "net,8,0,50,50,1,1,1\nnet,8,1,100,100,2,1,1\n",
    )
    jobs = "net-0,5,net,1,8\n1.0,6,odd-1,9,odd,1,8\n1.0,1,net-0,7,net,1,8\n"
    written(tmp_path, "pollux/workloads.csv.gz", f"{header}1.0,6,{jobs}")
    gpu = "gpu_type,"
    sia = placements.format(gpu) + "net,aws,1,8,4,0\n"
    written(tmp_path, "sia/profile_placements.csv.gz", sia)
    written(tmp_path, "sia/profile_scalability.csv.gz", counts.format(gpu) + "net,aws,2,2,8,3,1\n")
    written(tmp_path, "sia/workloads.csv.gz", f"{header}philly,1,net-0,5,net,1,8\n")

    pollux, sia_trace = read_trace(tmp_path / "pollux"), read_trace(tmp_path / "sia")

    assert (pollux.job_id.tolist(), pollux.duration_s.tolist()) == (["net-0"], [200.0])
    assert (pollux.models, pollux.batch.tolist()) == (("net",), [8.0])
    assert fault(pollux, "never measured").examples == ("line 3: 1.0,6,odd-1,9,odd,1,8",)
    folder = str(tmp_path / "pollux")
    assert trace_names(folder) == (f"{folder}/1.0/6", f"{folder}/1.0/1")
    assert sia_trace.duration_s.tolist() == [400.0]


def test_muri_and_tiresias_read_their_columns(tmp_path: Path) -> None:
    muri = read_trace(
        written(
            tmp_path,
            "muri.csv",
            "trace,job_id,num_gpus,submit_s,iterations,model_name,batch_size,duration_s,"
            "iteration_ms,stage0_ms,stage1_ms,stage2_ms,priority\n"
            "trace1,0,1,0,5853661,dqn,128,2868294,490,446,8,0,1\n"
            "trace2,0,1,0,5853661,dqn,128,77,490,446,8,0,1\n",
        )
    )
    tiresias = read_trace(
        written(
            tmp_path,
            "t.csv",
            "job_id,num_gpus,submit_s,iterations,model_name,duration_s\n0,1,0,606,vgg19,164\n",
        )
    )

    assert (muri.duration_s.tolist(), muri.batch[0], muri.priority[0]) == ([2868294.0], 128.0, 1)
    assert (tiresias.duration_s.tolist(), tiresias.models) == ([164.0], ("vgg19",))


def test_chronus_counts_minutes_and_keeps_the_first_deadline(tmp_path: Path) -> None:
    trace = read_trace(
        written(
            tmp_path,
            "c.csv",
            "job_id,user,num_gpus,submit_min,iterations,model_name,duration_min,"
            "deadline_min_list,value_list,best_effort,job_type\n"
            "0,vc_a,1,2,5530,mobilenet_v2,3,159-189-229,10-8-5,0,soft\n"
            "1,vc_b,1,3,1,alexnet,1,5,10,0,strict\n"
            "2,vc_b,1,4,1,alexnet,1,826,10,1,best\n"
            "3,vc_b,0,4,1,alexnet,1,826,10,1,best\n",
        )
    )

    assert trace.submit_s.tolist() == [120.0, 180.0, 240.0]
    assert trace.duration_s.tolist() == [180.0, 60.0, 60.0]
    assert trace.deadline_s[:2].tolist() == [159 * 60.0, 300.0]
    assert math.isnan(trace.deadline_s[2])
    assert trace.priority.tolist() == [1, 2, 0]
    assert fault(trace, "gpus is 0").rows == 1


SACCT = (
    "JobID|User|Account|Partition|JobName|Submit|Elapsed|State|ReqCPUS|NNodes|ReqMem|ReqTRES|"
    "AllocTRES|Dependency\n"
    "100|ann|bio|gpu|train|2024-05-01T10:00:00|1-02:03:04|COMPLETED|8|1|64G|"
    "cpu=8,gres/gpu=4|billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1|\n"
    "100.batch|||||2024-05-01T10:00:00|1-02:03:04|COMPLETED|8|1|||cpu=8,gres/gpu=4,mem=64G|\n"
    "100.0|||||2024-05-01T10:00:00|1-02:03:04|COMPLETED|8|1|||cpu=8,gres/gpu=4,mem=64G|\n"
    "101_3|bob|bio|gpu|sweep|2024-05-01T10:00:30|00:10:00|CANCELLED by 1000|8|2|4Gn|"
    "cpu=8,gres/gpu:a100=2,gres/gpu:h100=1||afterok:100(unfulfilled)\n"
    "102|bob|phys|gpu|x|2024-05-01T10:01:00|05:00|FAILED|8|1|2Gc|gres/gpu=1||\n"
    "103|bob|phys|cpu|x|2024-05-01T10:01:00|05:00|COMPLETED|8|1|2Gc|cpu=8||\n"
    "104|bob|phys|gpu|x|2024-05-01T10:01:00|05:00|RUNNING|8|1|2G|gres/gpu=1|gres/gpu=1|\n"
    "105|bob|phys|gpu|x|2024-05-01T10:01:00|00:00:00|CANCELLED|8|1|2G|gres/gpu=1||\n"
    "106|bob|phys|gpu|x|Unknown|00:00:10|COMPLETED|8|1|2G|gres/gpu=1||\n"
)


def test_sacct_reads_jobs_and_counts_steps(tmp_path: Path) -> None:
    path = written(tmp_path, "sacct.txt", SACCT)

    trace = read_trace(path)

    assert recognised(path) == ["sacct"]
    assert trace.job_id.tolist() == ["100", "101_3", "102"]
    assert trace.submit_s.tolist() == [0.0, 30.0, 60.0]
    assert trace.duration_s.tolist() == [93784.0, 600.0, 300.0]
    assert trace.gpus.tolist() == [4.0, 3.0, 1.0]
    assert trace.gpu_types == ("a100",)
    assert trace.tenants == ("bio", "phys")
    assert trace.models == ("train", "sweep", "x")
    assert trace.cpus.tolist() == [8.0, 8.0, 8.0]
    assert trace.memory_bytes.tolist() == [64 * 2.0**30, 8 * 2.0**30, 16 * 2.0**30]
    assert trace.after.tolist() == [[1, 0]]
    assert fault(trace, "step").rows == 2
    assert fault(trace, "still running").rows == 1
    assert fault(trace, "CPU job").rows == 1
    assert fault(trace, "never ran").rows == 1
    assert fault(trace, "submit_s is missing").examples[0].startswith("line 10: 106|")


def test_sacct_understands_raw_seconds_zones_old_resource_lists_and_a_last_bar(
    tmp_path: Path,
) -> None:
    raw = read_trace(
        written(
            tmp_path,
            "raw.txt",
            "ElapsedRaw|AllocGRES|Submit|JobID|\n"
            "600|gpu:tesla:2|2024-05-01T10:00:00+0200|1|\n"
            "60|gpu:3|2024-05-01T08:00:09Z|2|\n",
        )
    )
    ends = read_trace(
        written(
            tmp_path,
            "ends.txt",
            "JobID|Submit|Start|End|AllocTRES\n7|1714557600|1714557610|1714557700|gres/gpu=1\n",
        )
    )

    assert (raw.duration_s.tolist(), raw.gpus.tolist()) == ([600.0, 60.0], [2.0, 3.0])
    assert raw.submit_s.tolist() == [0.0, 9.0]
    assert raw.gpu_types == ("tesla",)
    assert (ends.duration_s.tolist(), ends.submit_s.tolist()) == ([90.0], [0.0])


@pytest.mark.parametrize(
    ("header", "words"),
    [("JobID|Submit|Elapsed|State", "about GPUs"), ("JobID|Submit|AllocTRES", "run times")],
)
def test_a_sacct_dump_that_lacks_something_says_how_to_make_one(
    tmp_path: Path, header: str, words: str
) -> None:
    path = written(tmp_path, "s.txt", f"{header}\n1|2024-05-01T10:00:00|gres/gpu=1|x\n")

    with pytest.raises(StewardError, match=words) as caught:
        read_trace(path, format="sacct")

    assert "--parsable2" in caught.value.hint


SWF = (
    "; Computer: Linux cluster\n; MaxProcs: 128\n"
    "   1   0  10  100  4 -1 -1  8 200 1024 1  3  1  7 1 1 -1 -1\n"
    "   2  50   5   60 16 -1 -1 -1  -1   -1 1  4 -1 -1 1 1  1 30\n"
    "; a remark\n"
    "   3  60   5   -1  1 -1 -1  1  -1   -1 5  4  2 -1 1 1 -1 -1\n"
    "   4  70   5   10  1 -1 -1\n"
    "   5  80   5   10  1 -1 -1  1  -1   -1 1  4  2 -1 1 1 -1 -1 99\n"
)


def test_swf_takes_processors_as_gpus(tmp_path: Path) -> None:
    path = written(tmp_path, "log.swf", SWF)

    trace = read_trace(path)

    assert recognised(path) == ["swf"]
    assert trace.job_id.tolist() == ["1", "2", "4"]
    assert trace.gpus.tolist() == [8.0, 16.0, 1.0]
    assert (trace.users, trace.tenants, trace.models) == (("u3", "u4"), ("g1",), ("app7",))
    assert trace.memory_bytes[0] == 8 * 2.0**20
    assert trace.after.tolist() == [[1, 0]]
    assert fault(trace, "processors").rows == 3
    assert fault(trace, "duration_s is missing").examples[0].startswith("line 6:")
    assert fault(trace, "more cells").rows == 1
    assert len(read_trace(path, limit=2)) == 2


def test_a_named_format_is_used_and_one_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "jobs.csv", PHILLY)

    plain = read_trace(path, format="plain")

    assert plain.origin.endswith("read as plain")
    with pytest.raises(StewardError, match="as helios it lacks user, gpu_num"):
        read_trace(path, format="helios")


def test_a_table_of_pai_with_other_columns_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "job_name,task_name,inst_num,plan_gpu\nj,t,1,100\n")

    with pytest.raises(StewardError, match="lacks status, start_time, end_time"):
        read_trace(path)


def test_plain_columns_that_lack_something_name_the_nearest(tmp_path: Path) -> None:
    path = written(tmp_path, "j.csv", "job_id,submit_s,durations,gpus\na,0,1,1\n")

    with pytest.raises(StewardError, match="lacks duration_s") as caught:
        read_trace(path, format="plain")

    assert "did you mean 'durations'?" in caught.value.hint


def test_a_folder_is_read_by_its_one_job_file(tmp_path: Path) -> None:
    text = "job_id,submit_s,duration_s,gpus\na,0,1,1\n"
    written(tmp_path, "site/night.csv", text)
    written(tmp_path, "site/nodes.csv", "host,rack\nn1,r1\n")
    written(tmp_path, "site/README.md", "words")

    trace = read_trace(tmp_path / "site")

    assert (len(trace), trace.name) == (1, "site")
    written(tmp_path, "site/day.csv", text)
    with pytest.raises(StewardError, match="holds 2 traces: day, night"):
        read_trace(tmp_path / "site")
    names = trace_names(tmp_path / "site")
    assert [Path(name).name for name in names] == ["day", "night"]
    assert [len(read_trace(name)) for name in names] == [1, 1]


def test_a_folder_without_jobs_says_what_it_holds(tmp_path: Path) -> None:
    written(tmp_path, "acme/cluster_summary.csv", "id,gpu_job_num,avg_run_time_gpu\nx,1,2\n")
    written(tmp_path, "acme/empty.csv", "")
    (tmp_path / "none").mkdir()

    with pytest.raises(StewardError, match=r"summary statistics of clusters.*empty") as caught:
        read_trace(tmp_path / "acme")
    with pytest.raises(StewardError, match="it is empty"):
        read_trace(tmp_path / "none")

    assert "philly" in caught.value.hint


def test_traces_are_found_by_name_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "traces/philly/jobs.csv.gz", PHILLY)
    monkeypatch.setenv("STEWARD_DATA", str(tmp_path))

    assert len(read_trace("philly")) == 4
    assert len(read_trace("philly/bb")) == 3
    with pytest.raises(StewardError) as caught:
        read_trace("phily")
    assert "did you mean 'philly'?" in caught.value.hint
    monkeypatch.setenv("STEWARD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(StewardError, match="no file, folder or named trace") as caught:
        read_trace("philly")
    assert "STEWARD_TRACES" in caught.value.hint
    monkeypatch.setenv("STEWARD_TRACES", str(tmp_path / "traces"))
    assert len(read_trace("philly")) == 4


EAGLE = (
    "job_id,user,account,partition,qos,wallclock_req,nodes_req,processors_req,gpus_req,mem_req,"
    "submit_time,start_time,end_time,run_time,state,name,work_dir,submit_line\n"
    "7,u1,a1,p1,normal,172800.0,10,10,0,0.0,2019-01-01 08:55:55,2019-01-01 08:56:55,"
    "2019-01-02 12:39:41,99825.0,COMPLETED,n1,w1,s1\n"
    "8,u1,a1,p1,normal,3600.0,1,36,2,0.0,2019-01-01 09:55:55,2019-01-01 09:55:55,"
    "2019-01-01 10:55:55,3600.0,TIMEOUT,n1,w1,s1\n"
)


def test_eagles_jobs_have_limits_waits_and_who_ran_out_of_time(tmp_path: Path) -> None:
    path = written(tmp_path, "jobs.csv", EAGLE)

    trace = read_trace(path)

    assert recognised(path)[0] == "eagle"
    assert trace.gpus.tolist() == [0.0, 2.0]
    assert trace.time_limit_s.tolist() == [172800.0, 3600.0]
    assert (trace.start_s - trace.submit_s).tolist() == [60.0, 0.0]
    assert trace.cut_off.tolist() == [0.0, 1.0]
    assert trace.users == ("u1",)


@pytest.mark.parametrize(
    ("state", "cut_off"),
    [("COMPLETED", 0.0), ("FAILED", 0.0), ("CANCELLED by 1001", 1.0), ("OUT_OF_MEMORY", 1.0)],
)
def test_accounting_says_who_was_cut_off(tmp_path: Path, state: str, cut_off: float) -> None:
    rows = f"JobID|Submit|ElapsedRaw|State|AllocTRES\n1|2026-01-01T00:00:00|60|{state}|gres/gpu=1\n"

    trace = read_trace(written(tmp_path, "dump.txt", rows))

    assert trace.cut_off.tolist() == [cut_off]
