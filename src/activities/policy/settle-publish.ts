import { hostname } from 'node:os';
import { Publish } from '../../model/policy/publish.js';
import { adapterNamed, withKept } from '../../model/policy/adapters.js';
import type { PolicyRecord, Published, Target } from '../../model/policy/record.js';
import {
  firstRecord,
  pathOf,
  refusalOfTarget,
  withReplica,
  withReplicas,
  withTarget,
  concluded,
} from '../../model/policy/record.js';
import type { Asking } from '../../model/policy/holding.js';
import { refusalOfHolder, withHolder } from '../../model/policy/holding.js';
import { refusalWhileAsleep } from '../../model/policy/sleepers.js';
import { refusalWhileOpen } from '../../model/policy/tickets.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import { filesText, isOther } from '../../model/policy/weight-files.js';
import type { PolicyActivities } from '../contract/policy.js';
import type { Dependencies, PolicyService } from '../dependencies.js';
import type { Answers } from './ask-all.js';
import { askSome } from './ask-all.js';
import { checkPlaces, lackOf, checkCache } from './engine-abilities.js';
import { viewOf } from '../../model/policy/view.js';
import { checkOneUrlEach } from './one-engine.js';
import { inputOf, policyOf, refused } from './policy-view.js';
import type { Look } from './weight-files.js';
import { lookAt } from './weight-files.js';
import { countAt, neededOf } from '../../model/workflow-safe/policy.js';

/** For one question to an otherwise idle engine. */
const QUESTION_MS = 10_000;

/**
 * Checks everything that can be known before a replica is touched: the version, the key, the servers' abilities. A
 * replica that does not answer is away. A server that cannot be updated refuses the whole update.
 */
export function createSettlePublish(dependencies: Dependencies): PolicyActivities['settlePublish'] {
  return ({ service, publish: input, heard }) =>
    dependencies.attempt(async ({ signal }) => {
      const policy = policyOf(service, dependencies);
      const parsed = inputOf('publish', { schema: Publish, input });
      const look = await lookAt(parsed.weights.path);
      const publish: Target = { ...parsed, files: look.files };
      const asking = (): Asking => ({ ...publish, heard, now: commonMs() });
      const earlier = await policy.records.latest();
      checkTarget(earlier, { publish, asking: asking() });
      const controls = policy.controls.filter(({ replica }) => isMeant(earlier, replica));
      const { away, notes } = await examine(controls, { publish, signal });
      const record = await policy.records.change((before) => {
        checkTarget(before, { publish, asking: asking() });
        return targeted(before, {
          asking: asking(),
          publish: { ...publish, lora: adapterNamed(before, { service, target: publish }) },
          away,
          urls: policy.urls,
        });
      });
      const { version, mode, drain_limit, quorum, order, max_unavailable } = publish;
      return {
        version,
        mode,
        drain_limit,
        quorum,
        at_once: order === 'rolling' ? max_unavailable : Math.max(1, controls.length),
        notes: [...notes, ...filesNotes(look, { publish, earlier })],
        view: viewOf(record),
      };
    });
}

function filesNotes(
  { files, why }: Look,
  { publish: { version, weights }, earlier }: { publish: Target; earlier: PolicyRecord | null },
): string[] {
  const path = JSON.stringify(weights.path);
  if (files === null)
    return [
      `${path} ${why} on ${hostname()}, where the worker runs: if other files are put there under version ${version}, nobody notices`,
    ];
  const served = earlier?.version ?? null;
  const theirs = served === null ? undefined : earlier?.weights[served];
  if (!theirs?.files || served === version || isOther(theirs.files, files)) return [];
  // Large files of one size and time at another path may have any content.
  if (!files.whole && pathOf(theirs) !== weights.path) return [];
  return [`version ${version} has the files of version ${served} (${filesText(files)})`];
}

function checkTarget(
  record: PolicyRecord | null,
  { publish, asking }: { publish: Target; asking: Asking },
): void {
  const refusal =
    refusalWhileOpen(record) ??
    refusalWhileAsleep(record) ??
    refusalOfHolder(record, asking) ??
    refusalOfTarget(record, publish);
  if (refusal !== null) throw refused(refusal);
}

interface Examined {
  /** Why it does not answer, by replica. */
  away: Answers<unknown>['away'];
  notes: string[];
}

async function examine(
  controls: PolicyService['controls'],
  { publish, signal }: { publish: Publish; signal: AbortSignal },
): Promise<Examined> {
  const bound = { within_ms: QUESTION_MS, signal };
  const isAdapter = publish.weights.kind === 'lora';
  const ask = async (control: PolicyService['controls'][number]): Promise<boolean> => {
    await control.asOne({ starts: true }, bound);
    const { lacks, tells_label } = await control.examine(publish, bound);
    if (lacks.length > 0)
      throw refused(lackOf(control.replica, { lacks, kind: publish.weights.kind }));
    if (!isAdapter && publish.cache !== 'keep') return tells_label;
    const started = await control.settings(bound);
    (isAdapter ? checkPlaces : checkCache)(control.replica, { ...publish, ...started });
    return tells_label;
  };
  const { answers, away } = await askSome(controls, { ask, signal });
  await checkOneUrlEach(
    controls.filter(({ replica }) => away[replica] === undefined),
    bound,
  );
  const silent = answers.filter(({ answer: tells_label }) => !tells_label);
  const notes = silent.map(
    ({ replica }) =>
      `${replica} does not report which weights it serves (/weight_info): a process that replaces it at this URL cannot be detected`,
  );
  return { away, notes };
}

function targeted(
  before: PolicyRecord | null,
  {
    publish,
    asking,
    away,
    urls,
  }: {
    publish: Target & Pick<Published, 'lora'>;
    asking: Asking;
    away: Examined['away'];
    urls: readonly string[];
  },
): PolicyRecord {
  const known = withReplicas(before ?? firstRecord(urls), urls);
  const meant = Object.keys(known.replicas).filter((replica) => isMeant(known, replica));
  const seen = meant.reduce((record, replica) => {
    const wasAway = record.replicas[replica]?.state === 'away';
    const fault = away[replica];
    if (wasAway === (fault !== undefined)) return record;
    return fault === undefined
      ? withReplica(record, { replica, state: 'unknown', fault: 'it is back' })
      : withReplica(record, { replica, state: 'away', fault, away_since: commonMs() });
  }, known);
  const kept =
    publish.lora === null
      ? seen
      : withKept(seen, { version: publish.version, path: publish.weights.path });
  const { version } = publish;
  // Who completes a version has not brought it.
  const { holder, take_over } = kept.weights[version] ?? publish;
  const held = withHolder(kept, { ...asking, version, anew: version !== kept.target });
  return withTarget(held, { ...publish, holder, take_over });
}

/** One that has joined is examined first, and one that leaves gets nothing any more. */
function isMeant(record: PolicyRecord | null, replica: string): boolean {
  const entry = record?.replicas[replica];
  return entry === undefined || (entry.examined && entry.draining_until === null);
}

export function createConcludePublish(
  dependencies: Dependencies,
): PolicyActivities['concludePublish'] {
  return ({ service, ...rule }) =>
    dependencies.attempt(async () => {
      const { records } = policyOf(service, dependencies);
      const record = await records.change((before) => {
        if (before === null || before.target === null || before.version === before.target)
          return null;
        const view = viewOf(before);
        const has = countAt(view, before.target);
        return has > 0 && has >= neededOf(view, rule) ? concluded(before) : null;
      });
      return viewOf(record);
    });
}
