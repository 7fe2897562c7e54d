import { createFileStore } from '../trajectories/files/file-store.js';
import type { TrajectoryStore } from '../trajectories/trajectory-store.js';
import type { Config } from './config.js';

export interface OpenStore {
  store: TrajectoryStore;
  /** Where it is, for people. */
  name: string;
  /** Rejects where it cannot be used. */
  ready: () => Promise<void>;
  close: () => Promise<void>;
}

export interface StoreBounds {
  max_cached_bytes: number;
  max_request_bytes: number;
}

/** The store that temporal.yaml names. */
export function openStore({ store }: Pick<Config, 'store'>, bounds: StoreBounds): OpenStore {
  const { root, readers } = store;
  return {
    store: createFileStore({ root, readers, ...bounds }),
    name: root,
    ready: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}
