import { hostname } from 'node:os';
import { z } from 'zod';
import type { WeightControl } from '../../generation/weight-control.js';
import { adapterNamed, withKept } from '../../model/policy/adapters.js';
import { refusalOfHolder, withHolder } from '../../model/policy/holding.js';
import { Publish } from '../../model/policy/orders.js';
import type { PolicyRecord } from '../../model/policy/record.js';
import { firstRecord, withReplica } from '../../model/policy/record.js';
import { isMeant, withReplicas } from '../../model/policy/replicas.js';
import { refusalWhileAsleep } from '../../model/policy/sleepers.js';
import type { Target } from '../../model/policy/target.js';
import {
  concluded,
  filesText,
  isOther,
  pathOf,
  refusalOfTarget,
  withTarget,
} from '../../model/policy/target.js';
import { refusalWhileOpen } from '../../model/policy/tickets.js';
import { viewOf } from '../../model/policy/view.js';
import { countAt, neededOf } from '../../model/workflow-safe/policy.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { Answers } from './ask.js';
import {
  askSome,
  checkCache,
  checkOneUrlEach,
  checkPlaces,
  checkRoutes,
  QUESTION_MS,
} from './ask.js';
import type { Order, Ordering } from './policy-service.js';
import { check, bringingOf, inputOf } from './policy-service.js';
import type { Look } from './weight-files.js';
import { lookAt } from './weight-files.js';

/**
 * Checks everything that can be known before a replica is touched: the version, the key, the servers' abilities. A
 * replica that does not answer is away. A server that cannot be updated refuses the whole update.
 */
export const publish: Order = async (input, ordering) => {
  const { policy, signal } = ordering;
  const given = inputOf('publish', { schema: Publish, input });
  const look = await lookAt(given.weights.path);
  const target: Target = { ...given, files: look.files };
  const earlier = await policy.records.latest();
  const targeting = { ...ordering, target };
  check(refusalOf(earlier, targeting));
  const controls = policy.controls().filter(({ replica }) => isMeant(earlier, replica));
  const { away, notes } = await examine(controls, { publish: given, signal });
  const record = await policy.records.change((before) => {
    check(refusalOf(before, targeting));
    return targeted(before, { ...targeting, away });
  });
  const brings = bringingOf(record, {
    ...given,
    ...(given.order === 'rolling' && { at_once: given.max_unavailable }),
    notes: [...notes, ...filesNotes(look, { target, earlier })],
  });
  return { record, brings };
};

interface Targeting extends Ordering {
  target: Target;
}

const askingOf = ({ target, heard }: Targeting) => ({ ...target, heard, now: commonMs() });

const refusalOf = (record: PolicyRecord | null, targeting: Targeting): string | null =>
  refusalWhileOpen(record) ??
  refusalWhileAsleep(record) ??
  refusalOfHolder(record, askingOf(targeting)) ??
  refusalOfTarget(record, targeting.target);

function filesNotes(
  { files, why }: Look,
  { target: { version, weights }, earlier }: { target: Target; earlier: PolicyRecord | null },
): string[] {
  const path = JSON.stringify(weights.path);
  if (files === null)
    return [
      `${path} ${why} on ${hostname()}, where the worker runs: later changes of the files of version ${version} are not noticed`,
    ];
  const served = earlier?.version ?? null;
  const theirs = served === null ? undefined : earlier?.weights[served];
  if (!theirs?.files || served === version || isOther(theirs.files, files)) return [];
  // Large files of one size and time at another path may have any content.
  if (!files.whole && pathOf(theirs) !== weights.path) return [];
  return [`version ${version} has the files of version ${served} (${filesText(files)})`];
}

async function examine(
  controls: readonly WeightControl[],
  { publish, signal }: { publish: Publish; signal: AbortSignal },
): Promise<{ away: Answers<unknown>['away']; notes: string[] }> {
  const bound = { within_ms: QUESTION_MS, signal };
  const { kind } = publish.weights;
  const ask = async (control: WeightControl): Promise<boolean> => {
    const { replica } = control;
    await control.asOne({ starts: true }, bound);
    const { lacks, tells_label } = await control.examine(publish, bound);
    checkRoutes(control, { lacks, kind });
    if (kind === 'lora') {
      const { adapter_places: places } = await control.settings(bound);
      checkPlaces(control, { ...publish, places });
    } else if (publish.cache === 'keep')
      checkCache(replica, { ...publish, ...(await control.settings(bound)) });
    return tells_label;
  };
  const { answers, away } = await askSome(controls, { ask, signal });
  await checkOneUrlEach(
    controls.filter(({ replica }) => away[replica] === undefined),
    bound,
  );
  const notes = answers.flatMap(([url, tells_label]) =>
    tells_label
      ? []
      : `${url} does not report which weights it serves (/weight_info): a process that replaces it at this URL cannot be detected`,
  );
  return { away, notes };
}

function targeted(
  before: PolicyRecord | null,
  { away, ...targeting }: Targeting & { away: Answers<unknown>['away'] },
): PolicyRecord {
  const { target, policy, service } = targeting;
  const { urls } = policy;
  const { version } = target;
  const known = withReplicas(before ?? firstRecord(urls), urls);
  const meant = Object.keys(known.replicas).filter((replica) => isMeant(known, replica));
  const seen = meant.reduce((record, replica) => {
    const fault = away[replica]?.message;
    const wasAway = record.replicas[replica]?.state === 'away';
    if (wasAway === (fault !== undefined)) return record;
    return fault === undefined
      ? withReplica(record, { replica, state: 'unknown', fault: 'it is back' })
      : withReplica(record, { replica, state: 'away', fault, away_since: commonMs() });
  }, known);
  const lora = adapterNamed(before, { service, target });
  const kept = lora === null ? seen : withKept(seen, { version, path: target.weights.path });
  // A publish that completes a version does not become its holder.
  const { holder, take_over } = kept.weights[version] ?? target;
  const held = withHolder(kept, { ...askingOf(targeting), version, anew: version !== kept.target });
  return withTarget(held, { ...target, lora, holder, take_over });
}

/** The target is the version once a quorum has it. */
export const conclude: Order = async (input, { policy }) => {
  const rule = z.object({ quorum: z.int().nullable() }).parse(input);
  const record = await policy.records.change((before) => {
    if (before === null || before.target === null || before.version === before.target) return null;
    const view = viewOf(before);
    const has = countAt(view, before.target);
    return has > 0 && has >= neededOf(view, rule) ? concluded(before) : null;
  });
  return { record };
};
