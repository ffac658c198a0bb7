import torch,time,json,os,random,sys,gc,csv
import torch.nn as nn,torchvision,pynvml
import transformers as T
from torch.profiler import profile,ProfilerActivity as P
O=os.environ['OUT'];T0=time.time();LIM=float(sys.argv[1])
for n in dir(nn.init):
  if n.endswith('_') and n[0]!='_':setattr(nn.init,n,lambda t,*a,**k:t)
pynvml.nvmlInit();H=pynvml.nvmlDeviceGetHandleByIndex(0)
R=random.Random(7);D='cuda'
def gp(L,h,n):return T.GPT2LMHeadModel(T.GPT2Config(n_layer=L,n_embd=h,n_head=n))
def ll(C,M,L,h,f,n,kv,v=32000):return M(C(num_hidden_layers=L,hidden_size=h,intermediate_size=f,num_attention_heads=n,num_key_value_heads=kv,vocab_size=v))
LM={'gpt2':lambda:gp(12,768,12),'llama-1b':lambda:ll(T.LlamaConfig,T.LlamaForCausalLM,16,2048,5632,16,8),'gpt2-large':lambda:gp(36,1280,20),
'bert-large':lambda:T.BertForMaskedLM(T.BertConfig(num_hidden_layers=24,hidden_size=1024,num_attention_heads=16,intermediate_size=4096)),
'distilbert':lambda:T.DistilBertForMaskedLM(T.DistilBertConfig()),'roberta':lambda:T.RobertaForMaskedLM(T.RobertaConfig(max_position_embeddings=1026)),
'opt-125m':lambda:T.OPTForCausalLM(T.OPTConfig()),'qwen2-0.5b':lambda:ll(T.Qwen2Config,T.Qwen2ForCausalLM,24,896,4864,14,2,151936),
'mistral-s':lambda:ll(T.MistralConfig,T.MistralForCausalLM,12,1536,4096,12,4),'neox-160m':lambda:T.GPTNeoXForCausalLM(T.GPTNeoXConfig(num_hidden_layers=12,hidden_size=768,num_attention_heads=12,intermediate_size=3072)),
'llama-3b':lambda:ll(T.LlamaConfig,T.LlamaForCausalLM,26,3072,8192,24,8),'electra':lambda:T.ElectraForMaskedLM(T.ElectraConfig(embedding_size=768,hidden_size=768,num_attention_heads=12,intermediate_size=3072))}
VI='resnet34 resnet101 resnext50_32x4d wide_resnet50_2 vgg16 vgg16_bn alexnet squeezenet1_1 shufflenet_v2_x1_0 mobilenet_v2 mobilenet_v3_small efficientnet_b2 efficientnet_v2_s regnet_x_3_2gf regnet_y_400mf densenet169 mnasnet0_5 convnext_small swin_t swin_v2_t vit_b_32 maxvit_t'.split()
OP={'sgd':lambda p:torch.optim.SGD(p,.001),'sgd_momentum':lambda p:torch.optim.SGD(p,.001,momentum=.9),'adam':lambda p:torch.optim.Adam(p,1e-4),'adamw':lambda p:torch.optim.AdamW(p,1e-4)}
out=open(O+'/rows.jsonl','w');prof=open(O+'/ops.jsonl','w');mem=open(O+'/mem.jsonl','w')
def go(m,mode,b,s,amp,opt,ck,bench=False,pr=False,snap=False):
  gc.collect();torch.cuda.empty_cache();torch.cuda.reset_peak_memory_stats();torch.backends.cudnn.benchmark=bench
  lm=m in LM;base=torch.cuda.memory_allocated()
  net=(LM[m]() if lm else getattr(torchvision.models,m)()).to(D)
  if ck and lm:net.gradient_checkpointing_enable()
  with torch.no_grad():
    for p in net.parameters():p.normal_(0,.02)
  if lm:x=torch.randint(0,1000,(b,s),device=D)
  else:x=torch.randn(b,3,s,s,device=D);y=torch.randint(0,1000,(b,),device=D);L=nn.CrossEntropyLoss()
  tr=mode=='train';net.train(tr);o=OP[opt](net.parameters()) if tr else 0
  def step():
    with torch.autocast('cuda',torch.bfloat16,enabled=amp),torch.set_grad_enabled(tr):
      if lm:l=net(input_ids=x,labels=x).loss if tr else net(input_ids=x)
      else:
        l=net(x)
        if tr:l=L(l,y)
    if tr:o.zero_grad(set_to_none=True);l.backward();o.step()
  mm=torch.cuda.memory_allocated()
  if snap:torch.cuda.memory._record_memory_history(stacks='python',context=None)
  step();torch.cuda.synchronize()
  if snap:
    step();z=torch.cuda.memory._snapshot();torch.cuda.memory._record_memory_history(enabled=None)
    mem.write(json.dumps(dict(m=m,mode=mode,b=b,s=s,amp=amp,opt=opt,bench=bench,ev=[(e['action'],e['addr'],e['size']) for e in z['device_traces'][0]]))+'\n');mem.flush()
  step();torch.cuda.synchronize();pa1=torch.cuda.max_memory_allocated();pr1=torch.cuda.max_memory_reserved();torch.cuda.reset_peak_memory_stats()
  ts=[];e0=pynvml.nvmlDeviceGetTotalEnergyConsumption(H);t9=time.time()
  while len(ts)<30 and (len(ts)<5 or time.time()-t9<.7):
    t=time.perf_counter();step();torch.cuda.synchronize();ts.append(time.perf_counter()-t)
  e=(pynvml.nvmlDeviceGetTotalEnergyConsumption(H)-e0)/1e3;ts.sort();w=sum(ts)
  r=dict(family='lm' if lm else 'vision',model=m,mode=mode,batch=b,size='' if lm else s,seq=s if lm else '',amp=amp,opt=opt,grad_ckpt=ck if lm else '',params=sum(p.numel() for p in net.parameters()),model_mib=mm>>20,peak_alloc_bytes=torch.cuda.max_memory_allocated(),peak_reserved_bytes=torch.cuda.max_memory_reserved(),nvml_used_bytes=pynvml.nvmlDeviceGetMemoryInfo(H).used,step_s=ts[len(ts)//2],steps=len(ts),energy_j_per_step=e/len(ts),mean_power_w=e/w,bench=bench,first_alloc=pa1,first_reserved=pr1,base=base,fast=ts[0])
  out.write(json.dumps(r)+'\n');out.flush();print(m,mode,b,s,amp,opt,ck,bench,r['peak_alloc_bytes'],r['peak_reserved_bytes'],round(r['step_s'],5),int(time.time()-T0),flush=True)
  if pr:
    with profile(activities=[P.CUDA,P.CPU],record_shapes=True) as f:step();torch.cuda.synchronize()
    q=[(k.key,k.input_shapes,k.count,k.self_device_time_total) for k in f.key_averages(group_by_input_shape=True) if k.self_device_time_total>0 and k.key.startswith('aten')]
    prof.write(json.dumps(dict(r,ops=q))+'\n');prof.flush()
def safe(*a,**k):
  try:go(*a,**k)
  except Exception as e:print('FAIL',a,repr(e)[:200],flush=True)
for b in(False,True):
  safe('resnet18','train',128,224,False,'sgd',False,bench=b,snap=True);safe('resnet50','train',32,224,False,'adamw',False,bench=b,snap=True);safe('resnet50','train',128,224,True,'adamw',False,bench=b)
safe('gpt2','train',4,512,False,'adamw',False,snap=True);safe('gpt2','train',8,1024,True,'sgd_momentum',True,snap=True);safe('llama-1b','infer',4,1024,False,'sgd',False,snap=True);safe('mnasnet1_0','train',8,224,False,'adamw',False)
safe('vit_b_16','train',32,224,True,'adam',False,snap=True);safe('gpt2-medium','train',1,128,False,'adamw',False) if 0 else 0
names=VI+[k for k in LM if k not in('gpt2','llama-1b')];k=0
while time.time()-T0<LIM and k<6:
  R.shuffle(names)
  for m in names:
    if time.time()-T0>LIM:break
    lm=m in LM;mode='infer' if k in(1,4) else 'train';amp=R.random()<.5 if k>1 else k==0
    b=R.choice([2,4,8,16]) if lm else R.choice([8,16,32,64,128]);s=R.choice([128,256,512]) if lm else 224
    safe(m,mode,b,s,amp,R.choice(list(OP)),lm and mode=='train' and R.random()<.4,pr=k<2 or k==3)
  k+=1
