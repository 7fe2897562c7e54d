import { Fault } from '../../src/model/faults.js';
import type { FaultType } from '../../src/model/faults.js';
import type { LogprobsMode } from '../../src/model/logprobs-mode.js';
import type { EngineIdentity } from '../../src/model/policy/record.js';
import type { EngineSettings, WeightControl } from '../../src/generation/weight-control.js';
import { REMEDIES } from '../../src/generation/vllm/control.js';

export type ControlCall = Exclude<
  keyof WeightControl,
  'replica' | 'remedies' | 'control_url' | 'close'
>;

/** An engine as its control sees it, with a hook before each call. */
export interface ControlledEngine extends WeightControl {
  /** The calls in order; `pause` with mode and cache. */
  calls: string[];
  isPaused: () => boolean;
  /** The path that was loaded last. */
  weights: () => string | null;
  label_now: () => string | null;
  /** What it is. */
  identity: EngineIdentity;
  mode: LogprobsMode;
  /** How it was started. */
  started: EngineSettings;
  process: Awaited<ReturnType<WeightControl['processSign']>>;
  lacks: string[];
  tells_label: boolean;
  /** Called before each call is executed; an error that it throws becomes the call's failure. */
  before: (call: ControlCall, times: number) => Promise<void> | void;
}

/** Logprobs of these weights for a prompt of three ids. */
export const PROBE = { prompt_ids: [1, 2, 3], logprobs: [-1, -2] };

export function controlledEngine(replica: string): ControlledEngine {
  const state = {
    paused: false,
    asleep: false,
    weights: null as string | null,
    label: null as string | null,
    adapters: [] as string[],
  };
  const counts = new Map<ControlCall, number>();
  const meet = async (call: ControlCall, said: string = call): Promise<void> => {
    const times = (counts.get(call) ?? 0) + 1;
    counts.set(call, times);
    engine.calls.push(said);
    await engine.before(call, times);
  };
  const engine: ControlledEngine = {
    replica,
    remedies: REMEDIES,
    identity: { model: 'm', max_model_len: 100, tokenizer: 't', logprobs_mode: null },
    mode: 'processed',
    started: { backend: null, cache_dtype: null, sleep_levels: null, adapter_places: null },
    control_url: replica.replace(/\/v1$/, ''),
    calls: [],
    process: null,
    lacks: [],
    tells_label: true,
    before: () => undefined,
    isPaused: () => state.paused,
    weights: () => state.weights,
    label_now: () => state.label,
    identify: async () => {
      await meet('identify');
      return engine.identity;
    },
    logprobsMode: async () => {
      await meet('logprobsMode');
      return engine.mode;
    },
    examine: async () => {
      await meet('examine');
      return { lacks: engine.lacks, tells_label: engine.tells_label };
    },
    pause: async ({ mode, cache }) => {
      await meet('pause', `pause ${mode} ${cache}`);
      state.paused = true;
    },
    cutOff: async () => {
      await meet('cutOff');
      state.paused = true;
    },
    load: async ({ path }) => {
      await meet('load');
      state.weights = path;
    },
    label: async (label) => {
      await meet('label', label.includes('?') ? 'label in transit' : 'label');
      state.label = label;
    },
    asOne: async () => {
      await meet('asOne');
      return state.label;
    },
    // Tests need not see it.
    processSign: () => Promise.resolve(engine.process),
    settings: async () => {
      await meet('settings');
      return engine.started;
    },
    said: async () => {
      await meet('said');
      return state.label;
    },
    paused: async () => {
      await meet('paused');
      return state.paused;
    },
    isUp: async () => {
      await meet('isUp');
      return true;
    },
    worldSize: async () => {
      await meet('worldSize');
      return 1;
    },
    closeTransfer: () => meet('closeTransfer'),
    resetCache: () => meet('resetCache'),
    resume: async () => {
      await meet('resume');
      state.paused = false;
    },
    adapters: async () => {
      await meet('adapters');
      return [...state.adapters];
    },
    loadAdapter: async ({ name }) => {
      await meet('loadAdapter', `load ${name}`);
      state.adapters.push(name);
    },
    unloadAdapter: async (name) => {
      await meet('unloadAdapter', `unload ${name}`);
      state.adapters = state.adapters.filter((one) => one !== name);
    },
    sleep: async (level) => {
      await meet('sleep', `sleep ${level}`);
      state.paused = true;
      state.asleep = true;
    },
    wakeUp: async (tag) => {
      await meet('wakeUp', tag === null ? 'wake' : `wake ${tag}`);
      if (tag !== null) return;
      state.asleep = false;
      state.paused = false;
    },
    // A question before each resume, which tests need not see.
    isAsleep: () => Promise.resolve(state.asleep),
    promptLogprobs: async () => {
      await meet('promptLogprobs');
      return PROBE.logprobs;
    },
    close: () => Promise.resolve(),
  };
  return engine;
}

/** The fault for an engine's answer, or for its silence (status null). */
export const controlFault = (type: FaultType, status: number | null = null): Fault =>
  new Fault({
    type,
    message: `the engine says ${status ?? 'nothing'}`,
    at: 'engine',
    ...(status !== null && { status }),
  });
