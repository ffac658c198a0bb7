-- cli_filter.lua, beside slurm.conf on login nodes: tells who submits a job with GPUs by sbatch alone
-- that nothing saves it when it has to give way. It changes nothing and refuses nothing.
local function wants_gpus(options)
  for _, name in ipairs({ "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket" }) do
    if options[name] ~= nil then
      return true
    end
  end
  return string.find(options["gres"] or "", "gpu", 1, true) ~= nil
end

local function has_signal(options)
  local signal = options["signal"] or ""
  return signal ~= "" and string.find(signal, "^0") == nil -- 0@0 stands for none
end

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
  local known = string.find(options["comment"] or "", "steward:", 1, true)
  if options["type"] == "sbatch" and wants_gpus(options) and not known and not has_signal(options) then
    slurm.log_info("%s", "when this job gives way to another, nothing is saved; to be asked first, "
      .. "submit it with: steward jobs submit --engine slurm SCRIPT")
  end
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end
