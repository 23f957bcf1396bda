"""Start a recipe's processes on all hosts of a job: ``python -m danish_asr.cluster``.

``torchrun`` starts the processes of each host, and what it lacks stands here: a stop signal reaches
the recipe however early it comes and leaves ``torchrun`` alone, a run that saved and stopped is
told from one that failed, and a trace of GPU and memory is kept beside the run.
"""
