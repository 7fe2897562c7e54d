import type { Screen } from '../../src/client/screen.js';
import type { RolloutCollectionConfig } from '../config/schemas.js';
import type { Upload } from '../upload/exporter.js';
import type { CollectionFiles } from './files.js';

/** How a collection is played, beside upstream's configuration. */
export interface CollectionSettings {
  /** A deployment's temporal.yaml; null: a Temporal server and a worker only for this collection. */
  config: string | null;
  /** Name of the deployment's environment; null: its only one of kind `gym_agent`. */
  environment: string | null;
  /** Folder of the local stack's files; null: a folder below `.rollouts`, named after the output file. */
  folder: string | null;
  /** Id of a new batch; null: named after the output file and the time. */
  batch_id: string | null;
  /** Limit of one `/run`; null: the environment's. */
  run_timeout: string | null;
  /** Tokens of a conversation that the deployment's policy takes, where it answers the agents; null or absent: usual for agents. */
  max_seq_len?: number | null;
  /** Limit of a row, from its start to its end, all attempts and waits included. */
  rollout_timeout: string;
  /** Cancels the batch that still plays an earlier collection into the same file. */
  replace: boolean;
}

export interface CollectionRequest {
  config: RolloutCollectionConfig;
  /** URL of Gym's head server. */
  head_server: string;
  /** Where model servers capture their calls; null or absent: nowhere. */
  capture_dir?: string | null;
  settings: CollectionSettings;
  /** Opens the tracking servers that get results and metrics at the end; null or absent: there are none. */
  openUpload?: () => Promise<Upload | null>;
}

export interface CollectionContext {
  cwd: string;
  env: NodeJS.ProcessEnv;
  screen: Screen;
  /** If it aborts, this command ends and the batch stays. */
  signal: AbortSignal;
  /** Called once when the local stack cannot continue. */
  giveUp: (reason: Error) => void;
}

/** What one process needs to collect one collection. */
export interface Collecting extends CollectionContext {
  request: CollectionRequest;
  files: CollectionFiles;
  /** As upstream prints them: in their original form. */
  shown: CollectionFiles;
  max_attempts: number;
}
