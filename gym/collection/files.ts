import path from 'node:path';

/** The files of one collection, all beside the main one and named after it, as upstream does. */
export interface CollectionFiles {
  /** `output_jsonl_fpath`: one result per line, in completion order. */
  main: string;
  materialized: string;
  failures: string;
  aggregate: string;
  reward_profiling: string;
  agent_metrics: string;
  /** Our own: progress, for programs. */
  progress: string;
  /** Our own: which batch plays this collection. */
  state: string;
  /** Our own: which process writes it. */
  claim: string;
}

/** As upstream derives them: Python's `with_stem` and `with_suffix`, so `out.json` has `out_failures.jsonl` beside it. */
export function collectionFiles(outputJsonlFpath: string): CollectionFiles {
  const { dir, name } = path.parse(outputJsonlFpath);
  const beside = (suffix: string): string => path.join(dir, `${name}${suffix}`);
  return {
    main: outputJsonlFpath,
    materialized: beside('_materialized_inputs.jsonl'),
    failures: beside('_failures.jsonl'),
    aggregate: beside('_aggregate_metrics.json'),
    reward_profiling: beside('_reward_profiling.jsonl'),
    agent_metrics: beside('_agent_metrics.json'),
    progress: beside('_progress.json'),
    state: beside('_collection.json'),
    claim: beside('_collection.lock'),
  };
}
