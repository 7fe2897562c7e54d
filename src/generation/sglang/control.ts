import { Fault } from '../../model/faults.js';
import type { ControlOptions } from '../adapter.js';
import type { WeightControl } from '../weight-control.js';

/** Changes of weights of a running SGLang server. */
export function createSglangControl({ replica, control_url }: ControlOptions): WeightControl {
  const refuse = (): Promise<never> =>
    Promise.reject(
      new Fault({
        type: 'GenerationRejected',
        message: `${replica}: weights of SGLang cannot be changed by this version`,
        at: replica,
      }),
    );
  return {
    replica,
    control_url: control_url ?? replica.replace(/\/v1$/, ''),
    identify: refuse,
    asOne: () => Promise.resolve(null),
    processSign: () => Promise.resolve(null),
    settings: refuse,
    logprobsMode: refuse,
    examine: refuse,
    pause: refuse,
    cutOff: refuse,
    load: refuse,
    label: refuse,
    said: refuse,
    resetCache: refuse,
    resume: refuse,
    paused: refuse,
    isUp: refuse,
    worldSize: refuse,
    closeTransfer: refuse,
    adapters: refuse,
    loadAdapter: refuse,
    unloadAdapter: refuse,
    promptLogprobs: refuse,
    sleep: refuse,
    wakeUp: refuse,
    isAsleep: refuse,
    close: () => Promise.resolve(),
  };
}
