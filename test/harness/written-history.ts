import assert from 'node:assert/strict';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Payload, PayloadCodec } from '@temporalio/common';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';

/** Attributes of an event in proto3 JSON. */
type Attributes = Record<string, unknown>;

/**
 * A history written by hand, event by event, for cases that no server produces on demand. Its replay passes only if the
 * workflow gives exactly the written commands.
 */
export interface WrittenHistory {
  /** Appends an event, such as `TIMER_STARTED`; returns its id. */
  add: (type: string, attributes: Attributes) => string;
  /**
   * A workflow task: the workflow receives all earlier events, and its commands follow. `suggests`: the server suggests
   * a new run.
   */
  task: (suggests?: { suggestContinueAsNew: boolean }) => void;
  /** A workflow task without commands. Cause `RESET_WORKFLOW`: an operator resets it to here. */
  taskFails: (cause: string) => void;
  signal: (name: string, ...args: unknown[]) => void;
  /** The commands of an accepted update; they follow the task that accepts it. */
  update: (name: string, input: unknown) => void;
  /** The last update is answered. */
  updateEnds: () => void;
  /** The command of a child; returns its event's id. */
  startChild: (type: string, workflowId: string) => string;
  /** The commands of a signal to a child; returns its event's id. */
  signalChild: (name: string, workflowId: string) => string;
  /** The same to any other workflow. */
  signalOther: (name: string, workflowId: string) => string;
  childStarted: (initiatedEventId: string, child: { type: string; workflowId: string }) => void;
  childCompleted: (initiatedEventId: string, result: unknown) => void;
  /** The command of an activity; returns its event's id. */
  scheduleActivity: (type: string) => string;
  completeActivity: (scheduledEventId: string, result: unknown) => void;
  childFailed: (initiatedEventId: string, fault: string) => void;
  /** Fails for good; `fault` is the type of its failure. */
  failActivity: (scheduledEventId: string, fault: string) => void;
  /** Scheduled, and completed before the next task. */
  activity: (type: string, result: unknown) => void;
  /**
   * A value that the workflow gives with a command: the input of an activity or a child, or its own result. Events do
   * not compare these. Write them in the order of the commands; values in between may be omitted.
   */
  gives: (value: unknown) => void;
  /** A value that it gives with no command. */
  keeps: (value: unknown) => void;
  /** Fails if the workflow behaves differently. `worker`: settings other than those of a replay. */
  replay: (worker?: WorkerSettings) => Promise<void>;
}

export interface WorkerSettings {
  workflowBundle?: { code: string };
  /** Default: true, so workflows run in this thread and as long as they like. */
  debugMode?: boolean;
  /** Of a workflow task, in ms. */
  isolateExecutionTimeout?: number;
}

const NAMESPACE = 'default';
const QUEUE = { name: 'written', kind: 'TASK_QUEUE_KIND_NORMAL' };
const BEGINNING_MS = Date.UTC(2026, 0, 1);

export function writeHistory(
  {
    type,
    workflowId,
    parent,
    before,
    first = runId(workflowId),
    memo = {},
  }: {
    type: string;
    workflowId: string;
    parent?: string;
    /** The run that this one continues. */
    before?: string;
    /** The first run of its chain, which a reset keeps; default: this one. */
    first?: string;
    memo?: Record<string, unknown>;
  },
  ...args: unknown[]
): WrittenHistory {
  const events: Attributes[] = [];
  const expected: unknown[] = [];
  const kept: unknown[] = [];
  let taskCompleted = '';
  let scheduled = 0;
  let lastUpdate = { id: '', eventId: '' };
  const add = (name: string, attributes: Attributes): string => {
    const eventId = String(events.length + 1);
    const field = name.toLowerCase().replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    events.push({
      eventId,
      eventTime: new Date(BEGINNING_MS + events.length * 100).toISOString(),
      eventType: `EVENT_TYPE_${name}`,
      [`${field}EventAttributes`]: attributes,
    });
    return eventId;
  };
  const command = (name: string, attributes: Attributes): string =>
    add(name, { ...attributes, workflowTaskCompletedEventId: taskCompleted });
  const signal = (signalName: string, to: { workflowId: string; ofChild: boolean }): string =>
    command('SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED', {
      namespace: NAMESPACE,
      workflowExecution: { workflowId: to.workflowId },
      signalName,
      childWorkflowOnly: to.ofChild,
    });
  const scheduleActivity = (name: string): string =>
    command('ACTIVITY_TASK_SCHEDULED', {
      activityId: String(++scheduled),
      activityType: { name },
      taskQueue: QUEUE,
    });
  const startedActivity = (scheduledEventId: string): Attributes => ({
    scheduledEventId,
    startedEventId: add('ACTIVITY_TASK_STARTED', { scheduledEventId, attempt: 1 }),
  });
  const completeActivity = (scheduledEventId: string, result: unknown): void => {
    add('ACTIVITY_TASK_COMPLETED', {
      ...startedActivity(scheduledEventId),
      result: payloads([result]),
    });
  };
  add('WORKFLOW_EXECUTION_STARTED', {
    ...(before !== undefined && { continuedExecutionRunId: before }),
    workflowType: { name: type },
    taskQueue: QUEUE,
    input: payloads(args),
    workflowId,
    originalExecutionRunId: runId(workflowId),
    firstExecutionRunId: first,
    workflowTaskTimeout: '10s',
    attempt: 1,
    memo: { fields: mapValues(memo, payload) },
    ...(parent !== undefined && {
      parentWorkflowNamespace: NAMESPACE,
      parentWorkflowExecution: { workflowId: parent, runId: runId(parent) },
    }),
  });

  return {
    add: (name, attributes) => command(name, attributes),
    task: (suggests = { suggestContinueAsNew: false }) => {
      const scheduledEventId = add('WORKFLOW_TASK_SCHEDULED', { taskQueue: QUEUE, attempt: 1 });
      const startedEventId = add('WORKFLOW_TASK_STARTED', { scheduledEventId, ...suggests });
      taskCompleted = add('WORKFLOW_TASK_COMPLETED', {
        scheduledEventId,
        startedEventId,
        sdkMetadata: { coreUsedFlags: [1, 2, 3] },
      });
    },
    taskFails: (cause) => {
      const scheduledEventId = add('WORKFLOW_TASK_SCHEDULED', { taskQueue: QUEUE, attempt: 1 });
      add('WORKFLOW_TASK_FAILED', {
        scheduledEventId,
        startedEventId: add('WORKFLOW_TASK_STARTED', { scheduledEventId }),
        cause: `WORKFLOW_TASK_FAILED_CAUSE_${cause}`,
        failure: { message: 'written' },
        baseRunId: runId(workflowId),
        newRunId: `${runId(workflowId)}-again`,
      });
    },
    signal: (signalName, ...values) => {
      add('WORKFLOW_EXECUTION_SIGNALED', { signalName, input: payloads(values) });
    },
    update: (name, input) => {
      const updateId = `update-${events.length}`;
      const eventId = command('WORKFLOW_EXECUTION_UPDATE_ACCEPTED', {
        protocolInstanceId: updateId,
        acceptedRequestMessageId: `${updateId}/request`,
        acceptedRequestSequencingEventId: String(events.length - 2),
        acceptedRequest: { meta: { updateId }, input: { name, args: payloads([input]) } },
      });
      lastUpdate = { id: updateId, eventId };
    },
    updateEnds: () => {
      command('WORKFLOW_EXECUTION_UPDATE_COMPLETED', {
        meta: { updateId: lastUpdate.id },
        acceptedEventId: lastUpdate.eventId,
        outcome: { success: payloads([null]) },
      });
    },
    startChild: (name, child) =>
      command('START_CHILD_WORKFLOW_EXECUTION_INITIATED', {
        namespace: NAMESPACE,
        workflowId: child,
        workflowType: { name },
        taskQueue: QUEUE,
      }),
    signalChild: (signalName, child) => signal(signalName, { workflowId: child, ofChild: true }),
    signalOther: (signalName, other) => signal(signalName, { workflowId: other, ofChild: false }),
    childStarted: (initiatedEventId, child) => {
      add('CHILD_WORKFLOW_EXECUTION_STARTED', {
        namespace: NAMESPACE,
        initiatedEventId,
        workflowExecution: { workflowId: child.workflowId, runId: runId(child.workflowId) },
        workflowType: { name: child.type },
      });
    },
    childCompleted: (initiatedEventId, result) => {
      add('CHILD_WORKFLOW_EXECUTION_COMPLETED', {
        namespace: NAMESPACE,
        initiatedEventId,
        result: payloads([result]),
      });
    },
    childFailed: (initiatedEventId, fault) => {
      add('CHILD_WORKFLOW_EXECUTION_FAILED', {
        namespace: NAMESPACE,
        initiatedEventId,
        failure: failureOf(fault),
        retryState: 'RETRY_STATE_NON_RETRYABLE_FAILURE',
      });
    },
    scheduleActivity,
    completeActivity,
    failActivity: (scheduledEventId, fault) => {
      add('ACTIVITY_TASK_FAILED', {
        ...startedActivity(scheduledEventId),
        failure: failureOf(fault),
        retryState: 'RETRY_STATE_NON_RETRYABLE_FAILURE',
      });
    },
    activity: (name, result) => {
      completeActivity(scheduleActivity(name), result);
    },
    gives: (value) => {
      expected.push(value);
    },
    keeps: (value) => {
      kept.push(value);
    },
    replay: async (worker = {}) => {
      Runtime.install({ logger: new DefaultLogger('ERROR') });
      const codePath = path.join(PROJECT_ROOT, 'dist', 'src', 'workflow-bundle.js');
      const history = historyFromJSON({ events });
      const given: unknown[] = [];
      const dataConverter = { payloadCodecs: [listener(given)] };
      const options = { workflowBundle: { codePath }, dataConverter, ...worker };
      await Worker.runReplayHistory(options, history, workflowId);
      checkGiven(given, expected);
      for (const value of kept)
        assert.ok(!given.some((other) => isDeepStrictEqual(other, value)), JSON.stringify(value));
    },
  };
}

const runId = (workflowId: string): string => `run-of-${workflowId}`;

/** Receives each value that leaves the workflow. */
const listener = (given: unknown[]): PayloadCodec => ({
  encode: (values: Payload[]) => {
    given.push(
      ...values.map(
        ({ data }) => JSON.parse(Buffer.from(data ?? []).toString() || 'null') as unknown,
      ),
    );
    return Promise.resolve(values);
  },
  decode: (values: Payload[]) => Promise.resolve(values),
});

function checkGiven(given: unknown[], expected: unknown[]): void {
  let from = 0;
  for (const value of expected) {
    const at = given.findIndex((other, i) => i >= from && isDeepStrictEqual(other, value));
    // Compares, to show the difference.
    if (at < 0) assert.deepEqual(given.slice(from), [value]);
    from = at + 1;
  }
}

const failureOf = (type: string): Attributes => ({
  message: 'written',
  applicationFailureInfo: { type, nonRetryable: true },
});

const base64 = (text: string): string => Buffer.from(text).toString('base64');

const payload = (value: unknown): Attributes => ({
  metadata: { encoding: base64('json/plain') },
  data: base64(JSON.stringify(value)),
});

const payloads = (values: unknown[]): Attributes => ({ payloads: values.map(payload) });

const mapValues = (object: Attributes, map: (value: unknown) => unknown): Attributes =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, map(value)]));

interface Recorded {
  events?:
    | readonly { workflowExecutionStartedEventAttributes?: { workflowId?: string | null } | null }[]
    | null;
}

/** The workflow id of a recorded history, which a replay does not take from it. */
export const idIn = ({ events }: Recorded): string =>
  events?.[0]?.workflowExecutionStartedEventAttributes?.workflowId ?? '';
