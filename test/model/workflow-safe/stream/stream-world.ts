import assert from 'node:assert/strict';
import type { NextStep } from '../../../../src/model/workflow-safe/stream/next-step.js';
import { nextStep } from '../../../../src/model/workflow-safe/stream/next-step.js';
import {
  roomForAdmission,
  samplesLeft,
  versionOfNextStep,
} from '../../../../src/model/workflow-safe/stream/pacing.js';
import type {
  Out,
  PacingSettings,
  PacingState,
} from '../../../../src/model/workflow-safe/stream/state.js';
import * as changes from '../../../../src/model/workflow-safe/stream/state.js';
import { modelOfRoom, modelOfStep } from './pacing-model.js';

/** A stream, its trainer and its policy, played by choices; every answer is held to the model and to what is promised. */

export interface History {
  settings: PacingSettings;
  /** Versions advance by at most `versions_per_step` a step. */
  steady: boolean;
  hasPolicy: boolean;
  /** How many of 16 ended groups give nothing to deliver. */
  trouble: number;
  choices: readonly number[];
  /** How many of the first groups are admitted before anybody knows a version. */
  unknown: number;
}

/** How often what happened, so that no promise holds because nothing came. */
export interface Seen {
  steps: number;
  short: number;
  /** Groups of their steps that were too old. */
  over: number;
  /** Groups of their steps of which nobody knows how old they are. */
  unknown: number;
  dropped: number;
  due: number;
  publish: number;
  starved: number;
  ended: number;
}

export const nothingSeen = (): Seen => ({
  steps: 0,
  short: 0,
  over: 0,
  unknown: 0,
  dropped: 0,
  due: 0,
  publish: 0,
  starved: 0,
  ended: 0,
});

const FIRST = 3;
/** How a group that has ended may give nothing to deliver. */
const LOST = ['filtered', 'failed', 'untrained'] as const;

export class StreamWorld {
  private state: PacingState = changes.pacingFrom({ served: FIRST });
  private readonly outcomes = new Map<number, Out | 'delivered'>();
  /** The version of the last request for the next step: a steady trainer repeats it, whatever was lost. */
  private asked: number | null = null;
  private ended = false;
  /** Whether anybody knows what is served. */
  private isKnown = false;
  private readonly history: History;
  private readonly seen: Seen;

  constructor(history: History, seen: Seen) {
    this.history = history;
    this.seen = seen;
  }

  play(): void {
    this.admit();
    for (const choice of this.history.choices) {
      this.act(choice % 16, choice >> 4);
      // Decisions may come late, not after each event.
      if ((choice >> 8) % 4 > 0) this.tryStep({ diesBeforeDrops: choice >> 12 === 1 });
      if ((choice >> 10) % 4 > 0) this.admit();
      if (this.ended) break;
    }
    this.goOn();
    this.everyGroupIsSomewhereOnce();
  }

  private act(kind: number, by: number): void {
    if (kind < 7) this.endGroup(by);
    else if (kind < 10) this.ask(by);
    else if (kind < 13) this.publish(by);
    else if (kind === 13) this.restart();
    else if (kind === 14) this.endAgain(by);
    else this.askAgain(by);
  }

  private endGroup(by: number): void {
    const running = this.state.groups.filter(({ state }) => state === 'running');
    // Old ones are long ones: the newest end first more often than not.
    const at = by % 3 === 0 ? running.length - 1 : (by >> 2) % Math.max(1, running.length);
    const group = running[at]?.group;
    if (group === undefined) return;
    if (by % 16 >= this.history.trouble) this.state = changes.withComplete(this.state, group);
    else this.putOut(group, LOST[by % LOST.length] ?? 'failed');
  }

  private putOut(group: number, outcome: Out): void {
    assert.ok(!this.outcomes.has(group), `group ${group} is out already`);
    this.outcomes.set(group, outcome);
    this.state = changes.withOut(this.state, { group, outcome });
  }

  /** A signal that comes twice, or late. */
  private endAgain(by: number): void {
    const [group, outcome] = [...this.outcomes][by % Math.max(1, this.outcomes.size)] ?? [];
    if (group === undefined || outcome === undefined) return;
    const before = structuredClone(this.state);
    this.state = changes.withComplete(this.state, group);
    this.state = changes.withOut(this.state, { group, outcome: 'failed' });
    assert.deepEqual(this.state, before);
  }

  private ask(by: number): void {
    if (this.state.version !== null) return;
    const { served } = this.state;
    const { versions_per_step: c } = this.history.settings;
    const most = this.steadyVersion();
    if (this.history.steady && this.asked !== null) this.askWith(this.asked);
    else if (!this.history.steady)
      this.askWith(by % 3 === 0 ? undefined : Math.max(0, most - 2 + ((by >> 2) % (5 * c))));
    else if (by % 2 === 0 && served <= most) this.askWith();
    else this.askWith(Math.max(0, most - ((by >> 1) % (c + 2))));
  }

  /** Also of a trainer whose first ask was lost while the policy went on. */
  private steadyVersion(): number {
    const { last_version } = this.state;
    if (this.asked !== null) return this.asked;
    return last_version === null ? FIRST : last_version + this.history.settings.versions_per_step;
  }

  private askAgain(by: number): void {
    const { version } = this.state;
    if (version === null) return;
    this.askWith(this.history.steady ? version : version + (by % 4));
  }

  private askWith(version?: number): void {
    const given = version ?? null;
    if (!this.history.hasPolicy)
      this.state = changes.withServed(
        this.state,
        changes.servedOf(this.state, { policy: null, given }),
      );
    this.state = changes.withAsk(this.state, version === undefined ? {} : { version });
    assert.equal(this.state.version, version ?? this.state.served);
    this.asked = this.state.version;
  }

  private publish(by: number): void {
    if (!this.history.hasPolicy) return;
    const { last_version, served } = this.state;
    const { versions_per_step: c } = this.history.settings;
    const before = this.asked ?? last_version;
    const most = before === null ? served : before + c;
    const target = served + 1 + (by % (this.history.steady ? c : 3 * c));
    this.state = changes.withServed(
      this.state,
      this.history.steady ? Math.min(target, most) : target,
    );
  }

  /** Temporal's database is lost: what is in the store remains, and groups that run. */
  private restart(): void {
    const { served, next_step, last_version, admitted, groups, out } = structuredClone(this.state);
    this.state = changes.pacingFrom({
      served: this.history.hasPolicy ? served : (last_version ?? FIRST),
      next_step,
      last_version,
      admitted,
      groups: groups.toReversed(),
      out,
    });
    assert.deepEqual(this.state.groups, groups);
  }

  private admit(): void {
    const { settings } = this.history;
    const room = roomForAdmission(this.state, settings);
    assert.equal(room, modelOfRoom(this.state, settings), 'room for groups');
    const { version, last_version, served } = this.state;
    if (settings.max_lag === 0 && version === null && last_version !== null)
      assert.ok(room === 0 || served > last_version, 'admitted between a delivery and a publish');
    for (let i = 0; i < room; i++) {
      this.isKnown ||= version !== null || this.state.admitted >= this.history.unknown;
      const born = this.isKnown ? served : null;
      this.state = changes.withAdmitted(this.state, { ...settings, born });
      assert.ok(this.state.groups.at(-1)!.born === born);
    }
    if (room > 0) assert.equal(roomForAdmission(this.state, settings), 0);
  }

  /** Whether there is one. */
  private tryStep({ diesBeforeDrops = false } = {}): boolean {
    const { state, history, seen } = this;
    const step = nextStep(state, history.settings);
    const { why, ...decided } = { why: undefined, ...step };
    assert.deepEqual(decided, modelOfStep(state, history.settings));
    if (why !== undefined) this.holdWhy(why);
    if (step.ready) this.holdStep(step);
    if (step.ready) {
      for (const group of step.groups) {
        assert.ok(!this.outcomes.has(group), `group ${group} is delivered twice`);
        this.outcomes.set(group, 'delivered');
      }
      this.state = changes.withStep(this.state, step);
      this.asked = null;
      this.ended = step.final;
    }
    // A step is put before those that it drops: who dies between leaves them to the next one.
    if (!(step.ready && diesBeforeDrops))
      for (const group of step.dropped) this.putOut(group, 'dropped');
    seen.dropped += step.dropped.length;
    return step.ready;
  }

  private holdStep({ version, groups, final }: NextStep & { ready: true }): void {
    const { settings, steady } = this.history;
    const { groups_per_step, when_stale, max_lag } = settings;
    const isShort = groups.length < groups_per_step;
    assert.ok(!isShort || final, 'a short step that is not the last one');
    assert.ok(groups.length > 0);
    if (final) assert.equal(samplesLeft(this.state, settings), 0);
    const borns = this.state.groups.filter(({ group }) => groups.includes(group));
    const known = borns.flatMap(({ born }) => (born === null ? [] : [born]));
    const over = known.filter((born) => version - born > max_lag).length;
    if ((when_stale === 'wait' && steady) || when_stale === 'drop')
      assert.equal(over, 0, `${over} groups of a step are too old`);
    const unknown = borns.length - known.length;
    if (when_stale === 'drop') assert.equal(unknown, 0, 'nobody knows how old a group is');
    this.seen.unknown += unknown;
    this.seen.steps += 1;
    this.seen.short += Number(isShort);
    this.seen.over += over;
  }

  private holdWhy(why: (NextStep & { ready: false })['why']): void {
    const { groups, version, served } = this.state;
    const { settings } = this.history;
    if (why.kind === 'due') {
      this.seen.due += 1;
      assert.ok(why.groups.length > 0, 'waits for nobody');
      for (const group of why.groups)
        assert.equal(groups.find((one) => one.group === group)?.state, 'running');
    }
    if (why.kind === 'publish') {
      this.seen.publish += 1;
      assert.ok(version !== null && served < why.publish);
      const after = changes.withServed({ ...this.state, groups: [] }, why.publish);
      assert.ok(roomForAdmission(after, settings) > 0, 'what it asks for does not help');
    }
    if (why.kind === 'starved') {
      this.seen.starved += 1;
      const { filtered, untrained = 0, dropped, failed } = why.out;
      assert.ok(filtered + untrained + dropped + failed >= 10 * settings.groups_per_step);
    }
    if (why.kind === 'ended') {
      this.seen.ended += 1;
      this.ended = true;
    }
  }

  /** From wherever the history has led: steps come as long as groups end and what is asked for is published. */
  private goOn(): void {
    const { settings, hasPolicy } = this.history;
    for (let step = 0; step < 3 && !this.ended; step++) {
      if (this.state.version === null)
        this.askWith(
          this.history.steady ? this.steadyVersion() : versionOfNextStep(this.state, settings),
        );
      // One group at a time if no more fit, and those that were left before.
      const tries = 4 + this.state.groups.length + settings.groups_per_step;
      let tried = 0;
      while (!this.tryStep() && !this.isOver()) {
        assert.ok(tried++ < tries, 'no step comes');
        const { version, served, groups } = this.state;
        const answer = nextStep(this.state, settings);
        const why = answer.ready ? null : answer.why;
        if (why?.kind === 'publish') {
          assert.ok(hasPolicy, `without a policy workflow ${served} is served`);
          this.state = changes.withServed(this.state, why.publish);
        }
        if (why?.kind === 'starved') {
          this.state = changes.withStarvationReported(this.state);
          assert.equal(roomForAdmission(this.state, settings), 0);
          this.askWith(version!);
        }
        this.admit();
        for (const { group } of groups) this.state = changes.withComplete(this.state, group);
      }
    }
  }

  private isOver(): boolean {
    return this.ended;
  }

  private everyGroupIsSomewhereOnce(): void {
    const { groups, admitted, out } = this.state;
    const open = groups.map(({ group }) => group);
    assert.ok(open.every((group) => !this.outcomes.has(group)));
    const all = [...open, ...this.outcomes.keys()].sort((a, b) => a - b);
    assert.deepEqual(
      all,
      Array.from({ length: admitted }, (_, group) => group),
    );
    const counts = { delivered: 0, filtered: 0, untrained: 0, dropped: 0, failed: 0 };
    for (const outcome of this.outcomes.values()) counts[outcome] += 1;
    assert.deepEqual({ untrained: 0, ...out }, counts);
  }
}
