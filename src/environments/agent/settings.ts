import { BaseUrl } from '../../model/base-url.js';
import { z } from 'zod';
import {
  Positive,
  Word,
  Words,
  oneOf,
  orNull,
  refuserOf,
  Duration,
} from '../../model/field-kinds.js';
import { Size } from '../../platform/size.js';
import { CALL_FIELDS, CALL_LIMITS } from './call-settings.js';
import { asksPolicy } from './placeholders.js';

const Argv = z.tuple([Word], z.string());
const Command = orNull(Argv);
const Submit = orNull(
  z.union([z.literal('diff'), Argv], 'expected diff, or a program and its arguments as a list'),
);

const unconfined = (field: string): string =>
  `expected no ${field} with sandbox none, whose programs see all files of the host`;

const Run = z
  .strictObject({
    url: orNull(BaseUrl).describe(
      'URL of a service that runs programs; set this or `command`. `/runs/<rollout>.<life>` and `/health` are appended',
    ),
    headers_env: orNull(Word).describe(
      'the environment variable that holds headers for the service, one `name: value` a line',
    ),
    command: Command.describe(
      'a program that the worker starts, and its arguments. `{prompt}`, `{base_url}`, `{key}`, `{folder}` and `{here}` are filled in',
    ),
    setup: Command.describe(
      'a command that fills the empty folder before the program starts, in a sandbox of its own. It gets `{prompt, message_log, metadata}` as JSON on its standard input; null: none',
    ),
    submit: Submit.describe(
      'a command that runs once after the program, in a sandbox of its own, with the input of `setup`. Its output, up to 1 MiB, is the submission. `diff`: the patch of `{folder}` since `setup`; null: no submission',
    ),
    env: z
      .record(z.string().regex(/^[A-Za-z_]\w*$/, 'expected the name of a variable'), z.string())
      .default({})
      .describe(
        'environment variables of the three commands, beside `PATH`. Values with `{base_url}` or `{key}` are for the program alone, values with `{folder}` not for `submit`',
      ),
    sandbox: oneOf(['programs', 'none'], 'programs').describe(
      '`programs`: each life has a sandbox. `none`: no sandbox, for hosts that are one themselves',
    ),
    mounts: Words.describe(
      'files and folders of the host that the commands may read in `sandbox: programs`',
    ),
    submit_mounts: Words.describe(
      'files and folders of the host that `submit` alone may read. They must not be in `mounts`',
    ),
    memory: Size.default('4GiB').describe(
      'of all processes of a life together, in `sandbox: programs`',
    ),
    processes: Positive.default(512).describe(
      'processes and threads of a life at once, in `sandbox: programs`',
    ),
    disk: Size.default('4GiB').describe('files of a life, in `sandbox: programs`'),
  })
  .superRefine((run, context) => {
    const { url, command, headers_env, sandbox, mounts, setup, submit, submit_mounts } = run;
    const refuse = refuserOf(context);
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
    submit: Duration.default('10m').describe('longest time of `submit`'),
    run: orNull(Duration).describe(
      'longest time of a program, `setup` and `submit` included; null: as long as `rollout_timeout` allows',
    ),
  })
  .prefault({});

export const AgentSettings = z.strictObject({
  kind: z.literal('agent').describe('programs of yours that own their loop, and ask the policy'),
  run: Run.describe('where programs run'),
  verify: orNull(z.string()).describe(
    "another environment of this file, which grades the rollout; null: the program's own reward counts",
  ),
  ...CALL_FIELDS,
  limits: Limits.describe('of one rollout'),
  task_queue: Word.optional().describe(
    'task queue of its rollouts; absent: `<temporal.task_queue>-agent`',
  ),
  max_concurrent: Positive.default(8).describe('rollouts at once, per worker'),
});
export type AgentSettings = z.infer<typeof AgentSettings>;
