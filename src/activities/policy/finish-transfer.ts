import type { Bound, WeightControl } from '../../generation/weight-control.js';
import { AGREED_IDS, disagreements } from '../../model/policy/agreement.js';
import type { PolicyRecord } from '../../model/policy/record.js';
import { concluded } from '../../model/policy/record.js';
import { withoutIdleSleep } from '../../model/policy/sleepers.js';
import type { Ticket, TicketEngine } from '../../model/policy/ticket.js';
import { inTransit } from '../../model/policy/ticket.js';
import type { Outcome } from '../../model/policy/tickets.js';
import {
  acceptedLabels,
  ended,
  neededGroups,
  refusalOfTicket,
  wholeGroups,
  withTicket,
} from '../../model/policy/tickets.js';
import { Finish } from '../../model/policy/transfer.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import type { FinishedTransfer, PolicyActivities } from '../contract/policy.js';
import type { Dependencies, PolicyService } from '../dependencies.js';
import { asAdmitted } from './admit-joiner.js';
import { faultsOf, textsOf } from './ask-all.js';
import { examineLogprobs } from './examine-joiner.js';
import { halfLoaded, IT_HAS_LEFT } from './half-loaded.js';
import { viewOf } from '../../model/policy/view.js';
import { inputOf, knownControl, policyOf, refused } from './policy-view.js';
import { worstOf } from './probe.js';

/**
 * Ends a transfer whose weights have arrived: each engine gets its label, an empty cache, is resumed, and tells what it
 * computes. It serves once the record says so. An engine whose group was not sent, or that fails, is half loaded.
 */
export function createFinishTransfer(
  dependencies: Dependencies,
): PolicyActivities['finishTransfer'] {
  return ({ service, finish: input }) =>
    dependencies.attempt(async ({ signal }) => {
      const policy = policyOf(service, dependencies);
      const finish = inputOf('finish', { schema: Finish, input });
      const again = finishedBefore(await policy.records.latest(), finish);
      if (again !== null) return again;
      const ticket = await takeUp(policy, finish);
      const began = { ticket, finish, policy, signal };
      const { told, faults } = await completeAll(began);
      const { tolerance, same, probe } = ticket;
      if (probe === 'agree') Object.assign(faults, disagreements(told, { tolerance, same }));
      const outcomes = await outcomesOf(began, faults);
      const record = await policy.records.change((now) => conclude(now, { ticket, outcomes }));
      const paused_s = (commonMs() - ticket.began_at) / 1000;
      return { version: ticket.version, paused_s, faults, view: viewOf(record) };
    });
}

/** The same `finish` again, after its answer was lost. */
function finishedBefore(record: PolicyRecord | null, { ticket }: Finish): FinishedTransfer | null {
  const last = record?.transfers.last ?? null;
  if (last === null || last.nonce !== ticket || !last.is_whole) return null;
  return { version: last.version, paused_s: 0, faults: {}, view: viewOf(record) };
}

/** From here on an engine may have its final label; a later attempt accepts that. */
async function takeUp(
  { records }: PolicyService,
  { ticket: nonce, sent }: Finish,
): Promise<Ticket> {
  let isAgain = false;
  const record = await records.change((now) => {
    const refusal = refusalOfTicket(now, nonce);
    if (refusal !== null) throw refused(refusal);
    const open = now?.transfers.open ?? null;
    if (now === null || open === null) return null;
    const groups = new Set(open.engines.map(({ group }) => group));
    const foreign = sent.find((group) => !groups.has(group));
    if (foreign !== undefined)
      throw refused(
        `sent: expected groups of the ticket (${[...groups].join(', ')}), got ${foreign}`,
      );
    if (commonMs() >= open.paused_until)
      throw refused(`ticket: pause_limit ended at ${new Date(open.paused_until).toISOString()}`);
    isAgain = open.finishing;
    return withTicket(now, { ...open, finishing: true });
  });
  const open = record?.transfers.open ?? null;
  if (open?.nonce !== nonce) throw refused(refusalOfTicket(record, nonce) ?? '');
  return { ...open, finishing: isAgain };
}

interface Finishing {
  ticket: Ticket;
  finish: Finish;
  policy: PolicyService;
  signal: AbortSignal;
}

async function completeAll(finishing: Finishing) {
  const { ticket, finish, policy } = finishing;
  const told: Record<string, { before: number[] | null; after: number[] }> = {};
  const run = async ({ url, group, before, left }: TicketEngine): Promise<void> => {
    const control = knownControl(policy, url);
    if (left) throw refused(IT_HAS_LEFT);
    if (control === undefined) throw refused('it is no replica of the service any more');
    if (!finish.sent.includes(group)) throw refused(`its group ${group} was not sent`);
    const isAsleep = policy.records.known()?.replicas[url]?.slept != null;
    const after = await complete(control, { ...finishing, isAsleep });
    await examine(control, finishing);
    if (after !== null) told[url] = { before, after };
  };
  const { signal } = finishing;
  return { faults: textsOf(await faultsOf(ticket.engines, { run, signal })), told };
}

/** Returns what it computes, for `agree`. */
async function complete(
  control: WeightControl,
  { ticket, finish: { labels }, isAsleep, signal }: Finishing & { isAsleep: boolean },
): Promise<number[] | null> {
  const { version, nonce, cache, probe, paused_until } = ticket;
  const bound = (): Bound => ({ within_ms: paused_until - commonMs(), signal });
  const transit = inTransit(version, nonce);
  const accepted = acceptedLabels(ticket, { url: control.replica, labels, transit });
  const said = await control.said(bound());
  if (said === null || !accepted.includes(said))
    throw refused(
      `label: expected ${accepted.map((one) => JSON.stringify(one)).join(' or ')}, got ${JSON.stringify(said)}: another process, or another writer, is there`,
    );
  await control.label(String(version), bound());
  if (isAsleep) await control.wakeUp(null, bound());
  if (cache === 'reset') await control.resetCache(bound());
  await control.resume(bound());
  if (probe === null) return null;
  if (probe === 'agree') return await control.promptLogprobs(AGREED_IDS, bound());
  const worst = worstOf(await control.promptLogprobs(probe.prompt_ids, bound()), probe);
  if (worst !== null) throw refused(`probe: ${worst}`);
  return null;
}

/** A joiner has whole weights by now, so it may compute. */
async function examine(control: WeightControl, { policy, signal }: Finishing): Promise<void> {
  const record = await policy.records.latest();
  const identity = record?.identity ?? null;
  if (identity === null || record?.replicas[control.replica]?.examined !== false) return;
  await examineLogprobs(policy, { control, signal, identity });
}

/** Engines that failed are cut off before the record says so. */
async function outcomesOf(
  { ticket, policy, signal }: Finishing,
  faults: Readonly<Record<string, string>>,
): Promise<Record<string, Outcome>> {
  const { version, code, paused_until, engines } = ticket;
  const outcomes = await Promise.all(
    engines.map(async ({ url, left }): Promise<[string, Outcome]> => {
      const why = faults[url];
      if (why === undefined) return [url, { state: 'current', version }];
      const control = knownControl(policy, url);
      if (left || control === undefined) return [url, { state: 'away', fault: why }];
      const closes = code === 'ours';
      return [url, await halfLoaded(control, { why, closes, paused_until, signal })];
    }),
  );
  return Object.fromEntries(outcomes);
}

/** `version` becomes `target` if enough groups are whole. */
function conclude(
  now: PolicyRecord | null,
  { ticket, outcomes }: { ticket: Ticket; outcomes: Readonly<Record<string, Outcome>> },
): PolicyRecord | null {
  if (now === null || now.transfers.open?.nonce !== ticket.nonce) return null;
  const has = (url: string): boolean => outcomes[url]?.state === 'current';
  // Some may have left meanwhile.
  const engines = now.transfers.open.engines.filter(({ left }) => !left);
  const whole = wholeGroups(engines, has);
  const isAway = (url: string): boolean => outcomes[url]?.state === 'away';
  const isReached =
    whole.length > 0 && whole.length >= neededGroups({ ...ticket, engines }, { isAway });
  const why = isReached ? 'is over: it has finished' : 'is over: it did not reach its quorum';
  const { identity } = now;
  const admitted = Object.keys(outcomes)
    .filter(has)
    .reduce((next, replica) => asAdmitted(next, { replica, identity }), now);
  const after = ended(admitted, { outcomes, why, is_whole: isReached });
  return withoutIdleSleep(isReached ? concluded(after) : after);
}
