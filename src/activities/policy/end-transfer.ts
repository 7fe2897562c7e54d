import type { Bound, WeightControl } from '../../generation/weight-control.js';
import { AGREED_IDS, disagreements } from '../../model/policy/agreement.js';
import { Abandon, Attach, Finish } from '../../model/policy/orders.js';
import type {
  PolicyRecord,
  ReplicaChange,
  Ticket,
  TicketEngine,
} from '../../model/policy/record.js';
import { inTransit, sleptOf } from '../../model/policy/record.js';
import { withoutIdleSleep } from '../../model/policy/sleepers.js';
import { concluded, isOther, otherFiles, pathOf } from '../../model/policy/target.js';
import type { Outcomes } from '../../model/policy/tickets.js';
import {
  acceptedLabels,
  ended,
  neededGroups,
  refusalOfTicket,
  wholeGroups,
  withTicket,
} from '../../model/policy/tickets.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { PolicyService } from '../dependencies.js';
import { faultsOf, textsOf } from './ask.js';
import { checkLabel, checkProbe, givenBack, halfLoaded, inNamedPhase, openUp } from './engine.js';
import { asAdmitted, examineLogprobs } from './joiner.js';
import type { Order, Ordering } from './policy-service.js';
import { inputOf, knownControl, refused, repairing } from './policy-service.js';
import { sleptAgain } from './sleep.js';
import { lookAt } from './weight-files.js';

const IT_HAS_LEFT = 'it has left, drains, or has joined anew';

export interface OnTicket extends Ordering {
  ticket: Ticket;
}

export function engineOf(url: string, { policy }: OnTicket): WeightControl {
  const control = knownControl(policy, url);
  if (control !== undefined) return control;
  throw refused('it is no replica of the service any more');
}

/**
 * Ends a transfer whose weights have arrived: each engine gets its label, an empty cache, is resumed, and tells what it
 * computes. It serves once the record says so. An engine whose group was not sent, or that fails, is half loaded.
 */
export const finish: Order = async (input, ordering) => {
  const { policy } = ordering;
  const given = inputOf('finish', { schema: Finish, input });
  const before = await policy.records.latest();
  const done = before?.transfers.past.find((one) => one.nonce === given.ticket && one.is_whole);
  // The same again, after its answer was lost.
  if (done !== undefined)
    return { record: before, finished: { version: done.version, paused_s: 0, faults: {} } };
  const ticket = await takenUp(policy, {
    nonce: given.ticket,
    change: (open) => {
      checkSent(open, given);
      // From here on an engine may have its final label; a later attempt accepts that.
      return { ...open, finishing: true };
    },
  });
  const on = { ...ordering, ticket };
  const { told, faults } = await completeAll(on, given);
  if (ticket.probe === 'agree') Object.assign(faults, disagreements(told, ticket));
  const outcomes = await byUrl(ticket.engines, (engine) => outcomeOf(engine, { ...on, faults }));
  const record = await policy.records.change((now) => finished(now, { ticket, outcomes }));
  const paused_s = (commonMs() - ticket.began_at) / 1000;
  return { record, finished: { version: ticket.version, paused_s, faults } };
};

/** The open ticket before this change of it. An attempt that has found it earlier loses its engines. */
async function takenUp(
  { records }: PolicyService,
  { nonce, change }: { nonce: string; change: (open: Ticket) => Ticket },
): Promise<Ticket> {
  const found: Ticket[] = [];
  await records.change((now) => {
    const open = now?.transfers.open ?? null;
    if (now === null || open?.nonce !== nonce) throw refused(refusalOfTicket(now, nonce) ?? '');
    found[0] = open;
    return withTicket(now, change(open));
  });
  return found[0] as Ticket;
}

function checkSent({ engines, paused_until }: Ticket, { sent }: Finish): void {
  const groups = new Set(engines.map(({ group }) => group));
  const foreign = sent.find((group) => !groups.has(group));
  if (foreign !== undefined)
    throw refused(
      `sent: expected groups of the ticket (${[...groups].join(', ')}), got ${foreign}`,
    );
  if (commonMs() >= paused_until)
    throw refused(`ticket: pause_limit ended at ${new Date(paused_until).toISOString()}`);
}

async function completeAll(on: OnTicket, given: Finish) {
  const { ticket, policy, signal } = on;
  const told: Record<string, { before: number[] | null; after: number[] }> = {};
  const run = async ({ url, group, before, left }: TicketEngine): Promise<void> => {
    if (left) throw refused(IT_HAS_LEFT);
    const control = engineOf(url, on);
    if (!given.sent.includes(group)) throw refused(`its group ${group} was not sent`);
    const after = await complete(control, { ...on, labels: given.labels });
    const record = await policy.records.latest();
    const identity = record?.identity ?? null;
    // A joiner has whole weights by now, so it may compute.
    if (identity !== null && record?.replicas[url]?.examined === false)
      await examineLogprobs(policy, { control, signal, identity });
    if (after !== null) told[url] = { before, after };
  };
  return { faults: textsOf(await faultsOf(ticket.engines, { run, signal })), told };
}

/** Returns what it computes, for `agree`. */
async function complete(
  control: WeightControl,
  { ticket, policy, signal, labels }: OnTicket & Pick<Finish, 'labels'>,
): Promise<number[] | null> {
  const { version, nonce, cache, probe, paused_until } = ticket;
  const { replica: url } = control;
  const bound = (): Bound => ({ within_ms: paused_until - commonMs(), signal });
  const transit = inTransit(version, nonce);
  const expected = acceptedLabels(ticket, { url, labels, transit });
  checkLabel(await control.said(bound()), { expected });
  const inPhase = inNamedPhase(control);
  const isAsleep = sleptOf(policy.records.known(), url) !== null;
  await openUp(control, { label: String(version), isAsleep, cache, inPhase, bound });
  if (probe === 'agree') return await control.promptLogprobs(AGREED_IDS, bound());
  if (probe !== null) await inPhase('probe', () => checkProbe(control, { probe, ...bound() }));
  return null;
}

/** Engines that failed are cut off before the record says so. */
async function outcomeOf(
  { url, left }: TicketEngine,
  { ticket, faults, policy, signal }: OnTicket & { faults: Readonly<Record<string, string>> },
): Promise<ReplicaChange> {
  const { version, code, paused_until } = ticket;
  const why = faults[url];
  if (why === undefined) return { state: 'current', version };
  const control = knownControl(policy, url);
  if (left || control === undefined) return { state: 'away', fault: why };
  return await halfLoaded(control, { why, closes: code === 'ours', paused_until, signal });
}

const byUrl = async (
  engines: readonly TicketEngine[],
  outcomeOf: (engine: TicketEngine) => Promise<ReplicaChange>,
): Promise<Outcomes> =>
  Object.fromEntries(
    await Promise.all(
      engines.map(async (engine) => [engine.url, await outcomeOf(engine)] as const),
    ),
  );

/** `version` becomes `target` if enough groups are whole. */
function finished(
  now: PolicyRecord | null,
  { ticket, outcomes }: { ticket: Ticket; outcomes: Outcomes },
): PolicyRecord | null {
  if (now === null || now.transfers.open?.nonce !== ticket.nonce) return null;
  const has = (url: string): boolean => outcomes[url]?.state === 'current';
  // Some may have left meanwhile.
  const engines = now.transfers.open.engines.filter(({ left }) => !left);
  const whole = wholeGroups(engines, has);
  const isAway = (url: string): boolean => outcomes[url]?.state === 'away';
  const is_whole =
    whole.length > 0 && whole.length >= neededGroups({ ...ticket, engines }, { isAway });
  const why = is_whole ? 'is over: it has finished' : 'is over: it did not reach its quorum';
  const { identity } = now;
  const admitted = Object.keys(outcomes)
    .filter(has)
    .reduce((next, replica) => asAdmitted(next, { replica, identity }), now);
  const after = ended(admitted, { outcomes, why, is_whole });
  return withoutIdleSleep(is_whole ? concluded(after) : after);
}

/**
 * Ends a transfer whose weights have not arrived. Engines that nobody touched serve what they served; the others are
 * half loaded: cut off and paused, until they are loaded whole. If the workflow itself ends it, all may be touched.
 */
export const abandon: Order = async (input, ordering) => {
  const { policy, why } = ordering;
  const { ticket: nonce, touched } = inputOf('abandon', { schema: Abandon, input });
  const before = await policy.records.latest();
  const refusal = refusalOfTicket(before, nonce);
  if (refusal !== null) {
    // If the ticket has ended already, there is nothing left to give up or repair.
    const isOver = before?.transfers.past.some((one) => one.nonce === nonce) === true;
    if (why !== null || isOver) return { record: before };
    throw refused(refusal);
  }
  const ticket = await takenUp(policy, { nonce, change: (open) => open });
  const says = why ?? 'its holder gave it up';
  const isTouched = ({ group }: TicketEngine) => why !== null || touched.includes(group);
  const { engines } = ticket;
  const outcomes = await letGo({ ...ordering, ticket }, { engines, isTouched, why: says });
  const record = await policy.records.change((now) =>
    now?.transfers.open?.nonce === nonce
      ? ended(now, { outcomes, why: `is void: ${says}`, is_whole: false })
      : null,
  );
  return { record, ...repairing(record, ticket) };
};

/** What becomes of engines of a ticket that do not get its weights. */
export async function letGo(
  { ticket, policy, signal }: OnTicket,
  left: {
    engines: readonly TicketEngine[];
    isTouched: (engine: TicketEngine) => boolean;
    why: string;
  },
): Promise<Outcomes> {
  const { engines, isTouched, why } = left;
  const { paused_until, version, nonce, code } = ticket;
  const record = await policy.records.latest();
  return await byUrl(engines, async (engine) => {
    const { url, was } = engine;
    const control = knownControl(policy, url);
    if (engine.left) return { state: 'away', fault: IT_HAS_LEFT };
    if (control === undefined) return { state: 'away', needs: 'load', fault: why };
    const how = { was, transit: inTransit(version, nonce), signal };
    const slept = await sleptAgain(control, { ...how, record, isTouched: isTouched(engine) });
    if (slept !== null) return slept;
    const leaving = { ...how, closes: code === 'ours', paused_until };
    return isTouched(engine)
      ? await halfLoaded(control, { ...leaving, why })
      : await givenBack(control, leaving);
  });
}

/** Records where files of a version are whose weights a trainer has sent: replicas without them are loaded from there. */
export const attach: Order = async (input, { policy }) => {
  const given = inputOf('attach', { schema: Attach, input });
  const { version, checkpoint: path } = given;
  const { files } = await lookAt(path);
  const record = await policy.records.change((now) => {
    const known = now?.weights[version];
    if (now === null || known === undefined) {
      const numbers = [...new Set([now?.version, now?.target])];
      const expected = numbers.filter((one) => typeof one === 'number').join(' or ');
      throw refused(`version: expected ${expected || 'one that was begun'}, got ${version}`);
    }
    const theirs = pathOf(known);
    if (theirs !== null && theirs !== path)
      throw refused(
        `checkpoint: version ${version} has ${JSON.stringify(theirs)}, got ${JSON.stringify(path)}`,
      );
    const { files: before } = known;
    if (theirs !== null && before !== null && files !== null && isOther(before, files))
      throw refused(`checkpoint: ${otherFiles(path, { version, before, now: files })}`);
    const weights = { kind: 'checkpoint' as const, path };
    return { ...now, weights: { ...now.weights, [version]: { ...known, weights, files } } };
  });
  return { record, ...repairing(record, given) };
};
