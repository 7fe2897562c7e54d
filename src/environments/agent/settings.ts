import { z } from 'zod';
import { Duration } from '../../model/durations.js';
import { Size } from '../../platform/size.js';
import { BaseUrl } from '../../model/base-url.js';
import { CALL_FIELDS, CALL_LIMITS } from './call-settings.js';
import { asksPolicy } from './placeholders.js';

const Argv = z.tuple([z.string().min(1)], z.string());
const Command = Argv.nullable().default(null);
const Submit = z
  .union([z.literal('diff'), Argv], 'expected diff, or a program and its arguments as a list')
  .nullable()
  .default(null);

const unconfined = (field: string): string =>
  `expected no ${field} with sandbox none, whose programs see all files of the host`;

const Run = z
  .strictObject({
    url: BaseUrl.nullable()
      .default(null)
      .describe(
        'a service that runs programs: `/runs/<rollout>.<life>` and `/health` are appended; this or `command`',
      ),
    headers_env: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe(
        'the variable that holds headers of every request to it, `name: value`, one a line',
      ),
    command: Command.describe(
      'a program that the worker starts itself, and its arguments; `{prompt}`, `{base_url}`, `{key}`, `{folder}` and `{here}` are filled in',
    ),
    setup: Command.describe(
      "runs in a life's empty folder before the program, in a sandbox of its own, with `{prompt, message_log, metadata}` of the task as JSON on its standard input; null: nothing does",
    ),
    submit: Submit.describe(
      'runs once behind the program, in a sandbox and a home of its own, with the same input; what it prints, up to 1 MiB, is the submission. `diff`: the patch of `{folder}` since `setup`; null: there is none',
    ),
    env: z
      .record(z.string().regex(/^[A-Za-z_]\w*$/, 'expected the name of a variable'), z.string())
      .default({})
      .describe(
        "variables of all three, those that name the policy the program's alone, those that name `{folder}` not of `submit`; the worker's own are not theirs, save `PATH`",
      ),
    sandbox: z
      .enum(['programs', 'none'])
      .default('programs')
      .describe('what is around them; `none`: nothing, for hosts that are a sandbox themselves'),
    mounts: z
      .array(z.string().min(1))
      .default([])
      .describe('files and folders of the host that they may read in `sandbox: programs`'),
    submit_mounts: z
      .array(z.string().min(1))
      .default([])
      .describe('the same for `submit` alone: nothing in them may be in `mounts`'),
    memory: Size.default('4GiB').describe(
      'of all processes of a life together, in `sandbox: programs`',
    ),
    processes: z
      .int()
      .positive()
      .default(512)
      .describe('processes and threads of a life at once, in `sandbox: programs`'),
    disk: Size.default('4GiB').describe('files of a life, in `sandbox: programs`'),
  })
  .superRefine((run, context) => {
    const { url, command, headers_env, sandbox, mounts, setup, submit, submit_mounts } = run;
    const refuse = (path: string[], message: string): void => {
      context.addIssue({ code: 'custom', path, message });
    };
    if (url === null && command === null)
      refuse(
        [],
        'expected url, a service that runs programs, or command, which the worker starts; got neither',
      );
    if (url !== null && command !== null)
      refuse(['command'], 'expected no command beside url, got both');
    if (command !== null && headers_env !== null)
      refuse(['headers_env'], 'expected none without url, to which headers are sent');
    if (command === null && (setup ?? submit) !== null)
      refuse([setup === null ? 'submit' : 'setup'], 'expected none without command');
    for (const [name, argv] of Object.entries({ setup, submit })) {
      if (Array.isArray(argv) && argv.some(asksPolicy))
        refuse(
          [name],
          'expected neither {base_url} nor {key}, got one: it cannot reach the policy; use verify where a model judges',
        );
    }
    if (Array.isArray(submit) && /^(?!\/|\{).*\//.test(submit[0]))
      refuse(
        ['submit'],
        `expected a program on PATH or an absolute path, since it runs in an empty home, got ${submit[0]}`,
      );
    if (submit_mounts.length > 0 && !Array.isArray(submit))
      refuse(['submit_mounts'], 'expected none without a command of submit, which alone sees them');
    for (const [name, of] of Object.entries({ mounts, submit_mounts }))
      if (sandbox === 'none' && of.length > 0) refuse([name], unconfined(name));
  });

const Limits = z
  .strictObject({
    ...CALL_LIMITS,
    submit: Duration.default('10m').describe(
      'how long `submit` may take: a file that a program has left may keep a reader waiting',
    ),
    run: Duration.nullable()
      .default(null)
      .describe(
        'how long a program may run, `setup` and `submit` included; null: as long as `rollout_timeout` allows',
      ),
  })
  .prefault({});

/** Programs that own their loop. */
export const AgentSettings = z.strictObject({
  kind: z.literal('agent').describe('programs of yours that own their loop, and ask the policy'),
  run: Run.describe('where programs run'),
  verify: z
    .string()
    .nullable()
    .default(null)
    .describe(
      "another environment of this file, which says what a rollout is worth; null: the program's own reward",
    ),
  ...CALL_FIELDS,
  limits: Limits.describe('of one rollout'),
  task_queue: z
    .string()
    .min(1)
    .optional()
    .describe('its rollouts run on this queue instead of `<temporal.task_queue>-agent`'),
  max_concurrent: z.int().positive().default(8).describe('rollouts at once, per worker'),
});
export type AgentSettings = z.infer<typeof AgentSettings>;
