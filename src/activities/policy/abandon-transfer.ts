import { repairOf } from '../../model/policy/sleepers.js';
import type { Ticket } from '../../model/policy/ticket.js';
import { inTransit } from '../../model/policy/ticket.js';
import type { Outcome } from '../../model/policy/tickets.js';
import { ended, refusalOfTicket, withTicket } from '../../model/policy/tickets.js';
import { Abandon } from '../../model/policy/transfer.js';
import type { PolicyActivities } from '../contract/policy.js';
import type { Dependencies, PolicyService } from '../dependencies.js';
import { givenBack, halfLoaded, IT_HAS_LEFT } from './half-loaded.js';
import { sleptAgain } from './sleep-engines.js';
import { viewOf } from '../../model/policy/view.js';
import { inputOf, knownControl, policyOf, refused } from './policy-view.js';

/**
 * Ends a transfer whose weights have not arrived. Engines that nobody touched serve what they served; the others are
 * half loaded: cut off and paused, until they are loaded whole.
 */
export function createAbandonTransfer(
  dependencies: Dependencies,
): PolicyActivities['abandonTransfer'] {
  return ({ service, why, ...given }) =>
    dependencies.attempt(async ({ signal }) => {
      const policy = policyOf(service, dependencies);
      const { ticket: nonce, touched } =
        'nonce' in given
          ? { ticket: given.nonce, touched: null }
          : inputOf('abandon', { schema: Abandon, input: given.abandon });
      const before = await policy.records.latest();
      const refusal = refusalOfTicket(before, nonce);
      if (refusal !== null) {
        // Who gives up a ticket that has ended, or repairs one that is no more, has nothing left to do.
        const isOver = before?.transfers.past.some((one) => one.nonce === nonce) === true;
        if ('nonce' in given || isOver) return { repair: null, view: viewOf(before) };
        throw refused(refusal);
      }
      const ticket = await takeUp(policy, nonce);
      const outcomes = await outcomesOf(policy, { ticket, touched, why, signal });
      const record = await policy.records.change((now) =>
        now?.transfers.open?.nonce === nonce
          ? ended(now, { outcomes, why: `is void: ${why}`, is_whole: false })
          : null,
      );
      return { repair: repairOf(record, ticket), view: viewOf(record) };
    });
}

/** An attempt of `finish` that is still under way loses. */
async function takeUp({ records }: PolicyService, nonce: string): Promise<Ticket> {
  const record = await records.change((now) => {
    const open = now?.transfers.open;
    return now === null || open?.nonce !== nonce ? null : withTicket(now, open);
  });
  const open = record?.transfers.open ?? null;
  if (open?.nonce !== nonce) throw refused(refusalOfTicket(record, nonce) ?? '');
  return open;
}

async function outcomesOf(
  policy: PolicyService,
  {
    ticket,
    touched,
    why,
    signal,
  }: { ticket: Ticket; touched: readonly number[] | null; why: string; signal: AbortSignal },
): Promise<Record<string, Outcome>> {
  const { engines, paused_until, version, nonce } = ticket;
  const transit = inTransit(version, nonce);
  const closes = ticket.code === 'ours';
  const all = await Promise.all(
    engines.map(async ({ url, group, was, left }): Promise<[string, Outcome]> => {
      if (left) return [url, { state: 'away', fault: IT_HAS_LEFT }];
      const control = knownControl(policy, url);
      if (control === undefined) return [url, { state: 'away', needs: 'load', fault: why }];
      const isTouched = touched?.includes(group) ?? true;
      const record = policy.records.known();
      const slept = await sleptAgain(control, { record, was, transit, isTouched, signal });
      if (slept !== null) return [url, slept];
      const how = { closes, paused_until, signal };
      return [
        url,
        await (isTouched
          ? halfLoaded(control, { ...how, why })
          : givenBack(control, { ...how, was, transit })),
      ];
    }),
  );
  return Object.fromEntries(all);
}
