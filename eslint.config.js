import tseslint from 'typescript-eslint';

const TIMEOUT = {
  selector:
    "CallExpression[callee.property.name='any'] CallExpression[callee.object.name='AbortSignal'][callee.property.name='timeout']",
  message: 'Node.js 20 collects such a timeout as garbage: withDeadline (platform/waits/abort.ts).',
};
const PARSE = {
  selector: "MemberExpression[object.name='JSON'][property.name='parse']",
  message:
    'JSON.parse changes digits and the order of names: readJson (platform/json/kept.ts), or list the file here with a reason.',
};
const SHARED = [
  "VariableDeclaration[kind='let']",
  "VariableDeclaration > VariableDeclarator > NewExpression[callee.name='Map']",
].map((what) => ({
  selector: `:matches(Program, Program > ExportNamedDeclaration) > ${what}`,
  message:
    'All workflows of a process share their modules (workers/build-bundle.ts): keep it in the workflow’s function.',
}));

/** Files that use JSON.parse. None of them gives data of others on. */
const PARSERS = {
  'is the reader itself': ['src/platform/json/{kept,lossless,losses,members}.ts'],
  'reads kinds of lines without data of others': ['src/model/journal.ts'],
  'reads files and records that this project alone writes': [
    'src/platform/claim.ts',
    'src/activities/facts.ts',
    'src/activities/limits/limit-facts.ts',
    'src/activities/close/closing.ts',
    'src/trajectories/same-batch.ts',
    'src/workers/log.ts',
    'gym/collection/state.ts',
  ],
  'reads known fields, and gives the text on unchanged': [
    'src/model/agent/{sample,columns}.ts',
    'src/environments/gym-agent/answer.ts',
    'src/client/show/rollout-page.ts',
    'gym/collection/results/result-file.ts',
    'gym/resume/load-from-cache.ts',
    'gym/metrics/agent-answer.ts',
    'gym/metrics/table/{rollout-cells,read-rows,labels}.ts',
  ],
  'reads known fields only: replies of engines, errors, processes of this project, a text column': [
    'src/generation/vllm/{wire-faults,replies,completion-stream,known-events}.ts',
    'src/cli/policy.ts',
    'src/environments/http/call.ts',
    'src/environments/gym-agent/head-server.ts',
    'src/environments/gymnasium/{lost-session,cookies}.ts',
    'src/environments/math/grader-process.ts',
    'src/sandbox/{python,folders}.ts',
    'src/sandbox/snippets/line-reader.ts',
    'src/environments/retriever/{index-files,corpus/corpus,corpus/files}.ts',
  ],
  'gives JavaScript code, which has plain values': ['src/environments/module/user-module.ts'],
  'belongs to the stack on one machine': ['src/dev/**', 'simulator/**', 'lab/demos/**'],
};

export default tseslint.config(
  {
    ignores: [
      'dist/',
      '.lab/',
      '.tests/',
      'node_modules/',
      '.rollouts/',
      'python/',
      '**/*.js',
      '**/*.mjs',
      '**/*.cjs',
    ],
  },
  tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      // One program for all files: a service opens and closes each of them, which takes a fifth longer.
      parserOptions: { project: 'tsconfig.json', tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      '@typescript-eslint/consistent-type-imports': 'error',
      'no-restricted-syntax': ['error', TIMEOUT],
      // A forgotten await in a workflow or an activity is lost work.
      '@typescript-eslint/no-floating-promises': 'error',
      // Numbers in messages are the point of messages.
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      'max-lines': ['error', { max: 400, skipBlankLines: true, skipComments: true }],
      'max-lines-per-function': ['error', { max: 80, skipBlankLines: true, skipComments: true }],
      'max-params': ['error', 2],
    },
  },
  {
    files: ['src/**', 'simulator/**', 'gym/**', 'lab/demos/**'],
    ignores: ['gym/test/**', ...Object.values(PARSERS).flat()],
    rules: { 'no-restricted-syntax': ['error', TIMEOUT, PARSE] },
  },
  {
    files: ['src/workflows/**', 'src/model/workflow-safe/**'],
    rules: { 'no-restricted-syntax': ['error', TIMEOUT, PARSE, ...SHARED] },
  },
  {
    files: ['src/workflows/**'],
    rules: {
      '@typescript-eslint/no-restricted-imports': [
        'error',
        {
          patterns: [
            {
              group: [
                'node:*',
                'zod',
                '../model/*',
                '!../model/workflow-safe',
                '!../model/workflow-safe/*',
                '../platform/*',
                '!../platform/plain.js',
                '!../platform/json',
                '../platform/json/*',
                '!../platform/json/kept.js',
                '!../platform/json/depth.js',
                '../activities/*',
                '@temporalio/activity',
                '@temporalio/client',
                '@temporalio/worker',
              ],
              message:
                'Workflow code is deterministic: it imports @temporalio/workflow, src/model/workflow-safe, plain.ts, json/kept.ts, json/depth.ts, and types.',
              allowTypeImports: true,
            },
          ],
        },
      ],
    },
  },
  {
    files: ['test/**', 'gym/test/**', 'lab/{bed,bench,chaos}/**'],
    rules: {
      // `describe`/`test` callbacks and tables of cases are long by nature; node:test promises are awaited by the runner.
      'max-lines-per-function': 'off',
      '@typescript-eslint/no-floating-promises': [
        'error',
        {
          allowForKnownSafeCalls: [
            {
              from: 'package',
              package: 'node:test',
              name: ['test', 'describe', 'it', 'suite', 'before', 'after'],
            },
          ],
        },
      ],
      '@typescript-eslint/no-non-null-assertion': 'off',
    },
  },
);
