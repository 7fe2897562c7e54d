import type {
  GenerationService,
  ServiceDescription,
} from '../../src/generation/generation-service.js';
import { Fault } from '../../src/model/faults.js';

/** A replica that has only a health; it cannot generate. */
export interface FakeReplica extends GenerationService {
  /** What `describe` throws; null: it answers. */
  down: Error | null;
  paused: boolean;
  closed: boolean;
  /** How often it was probed. */
  probes: () => number;
}

const MODELS: ServiceDescription['models'] = [{ id: 'policy', max_model_len: 4096 }];

export function fakeReplica(replica: string): FakeReplica {
  let probes = 0;
  const never = (): never => {
    throw new Error(`${replica} was asked for more than its health`);
  };
  const fake: FakeReplica = {
    replica,
    down: null,
    paused: false,
    closed: false,
    probes: () => probes,
    describe: () => {
      probes += 1;
      if (fake.down !== null) return Promise.reject(fake.down);
      return Promise.resolve({ models: MODELS, version: null });
    },
    weightVersion: () => Promise.resolve(null),
    isPaused: () => Promise.resolve(fake.paused),
    isAsleep: () => Promise.resolve(false),
    generate: never,
    renderChat: never,
    renderTurn: never,
    tokenize: never,
    detokenize: never,
    promptLogprobs: never,
    close: () => {
      fake.closed = true;
      return Promise.resolve();
    },
  };
  return fake;
}

export const unavailable = (replica: string, retryAfterMs?: number): Fault =>
  new Fault({
    type: 'GenerationUnavailable',
    message: `${replica} is away`,
    at: replica,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });
