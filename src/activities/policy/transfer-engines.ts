import type { WeightControl } from '../../generation/weight-control.js';
import type { FaultType } from '../../model/faults.js';
import { Fault } from '../../model/faults.js';
import { AGREED_IDS } from '../../model/policy/agreement.js';
import { baseOf } from '../../model/policy/adapters.js';
import type { EngineIdentity, PolicyRecord } from '../../model/policy/record.js';
import { identityProblem } from '../../model/policy/replicas.js';
import type { Begin } from '../../model/policy/transfer.js';
import type { PolicyService } from '../dependencies.js';
import { askAll, twice } from './ask-all.js';
import { lackOf, checkCache } from './engine-abilities.js';
import { examineJoiner } from './examine-joiner.js';
import { checkOneUrlEach } from './one-engine.js';
import { refused } from './policy-view.js';

/** What engines say before a transfer touches them. */
export interface Seen {
  engines: SeenEngine[];
  /** Why an engine is left out, by URL. */
  away: Record<string, string>;
  /** Among them, those that answer nothing but `/health`. */
  hung: string[];
  /** What joiners among them are; null: there are none. */
  identity: EngineIdentity | null;
}

export interface SeenEngine {
  url: string;
  label: string | null;
  world_size: number;
  backend: string | null;
  before: number[] | null;
}

const NO_BACKEND = 'none';

const QUESTION_MS = 10_000;
const FIRST_QUESTION_MS = 2000;

interface Asking {
  begin: Begin;
  record: PolicyRecord | null;
  signal: AbortSignal;
}

/**
 * A server that cannot be paused refuses the whole update. One that does not answer is left out, as is a joiner that is
 * not what the others are. A trainer's own engines join with its job: nothing but its transfer gives them weights.
 */
export async function askEngines(policy: PolicyService, asking: Asking): Promise<Seen> {
  const { record, signal } = asking;
  let identity: EngineIdentity | null = null;
  const left: Record<string, string> = {};
  const joiner = async (control: WeightControl): Promise<SeenEngine | null> => {
    try {
      const own = await examineJoiner(policy, { control, signal });
      identity = alike(control, { own, others: identity });
      return await twice(() => askEngine(control, asking));
    } catch (error) {
      if (!(error instanceof Fault) || PASSES.has(error.type)) throw error;
      left[control.replica] = error.message;
      return null;
    }
  };
  const controls = meant(policy, asking);
  const ask = (control: WeightControl): Promise<SeenEngine | null> =>
    record?.replicas[control.replica]?.examined === false
      ? joiner(control)
      : twice(() => askEngine(control, asking));
  const { answers, away } = await askAll(controls, { ask, signal });
  const there = controls.filter(({ replica }) => (away[replica] ?? left[replica]) === undefined);
  await checkOneUrlEach(there, { within_ms: QUESTION_MS, signal });
  const silent = controls.filter(({ replica }) => away[replica] !== undefined);
  const hanging = await Promise.all(silent.map((control) => hangs(control, asking)));
  return {
    engines: answers.map(({ answer }) => answer).filter((one) => one !== null),
    away: { ...away, ...left },
    hung: silent.filter((_, i) => hanging[i]).map(({ replica }) => replica),
    identity,
  };
}

/** A joiner may answer later. */
const PASSES: ReadonlySet<FaultType> = new Set(['GenerationUnavailable', 'StoreFault']);

/** Joiners beside nothing else are compared with each other. */
function alike(
  { replica }: WeightControl,
  { own, others }: { own: EngineIdentity; others: EngineIdentity | null },
): EngineIdentity {
  const problem = others === null ? null : identityProblem(own, others);
  if (problem !== null) throw refused(`${replica}: ${problem}`);
  return own;
}

function meant(
  { controls }: PolicyService,
  { begin: { only, base }, record }: Asking,
): WeightControl[] {
  const urls = controls.map(({ replica }) => replica);
  const foreign = only?.find((url) => !urls.includes(url));
  if (foreign !== undefined)
    throw refused(
      `only: expected URLs of the service (${urls.join(', ')}), got ${JSON.stringify(foreign)}`,
    );
  const isMeant = ({ replica }: WeightControl): boolean => {
    const entry = record?.replicas[replica];
    const hasBase = entry?.state === 'current' && baseOf(entry) === base;
    if (entry !== undefined && entry.draining_until !== null) return false;
    return (only?.includes(replica) ?? true) && (base === null || hasBase);
  };
  return controls.filter(isMeant);
}

const hangs = (control: WeightControl, { signal }: Asking): Promise<boolean> =>
  control.isUp({ within_ms: FIRST_QUESTION_MS, signal }).catch(() => false);

async function askEngine(
  control: WeightControl,
  { begin, record, signal }: Asking,
): Promise<SeenEngine> {
  const { replica: url } = control;
  await control.paused({ within_ms: FIRST_QUESTION_MS, signal });
  const bound = { within_ms: QUESTION_MS, signal };
  const entry = record?.replicas[url];
  const sleep = entry?.slept == null ? null : 'ours';
  const { lacks, tells_label } = await control.examine({ cache: begin.cache, sleep }, bound);
  const all = tells_label ? lacks : [...lacks, '/weight_info'];
  if (all.length > 0) throw refused(lackOf(url, { lacks: all, kind: 'checkpoint' }));
  const [label, { backend, cache_dtype }, world_size] = await Promise.all([
    control.asOne({ starts: true }, bound),
    control.settings(bound),
    control.worldSize(bound),
  ]);
  if (backend === NO_BACKEND && begin.code === 'ours')
    throw refused(
      `${url} was started without a transfer of weights (vLLM: --weight-transfer-config)`,
    );
  checkCache(url, { cache: begin.cache, cache_dtype });
  // Nothing that computes reaches an engine with other weights than the record's.
  const serves = entry === undefined || entry.state === 'current';
  const isAsked = serves && begin.probe === 'agree';
  const before = isAsked ? await control.promptLogprobs(AGREED_IDS, bound) : null;
  return { url, label, world_size, backend: backend === NO_BACKEND ? null : backend, before };
}
