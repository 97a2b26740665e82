import { type LanguageModel, generateText, isStepCount } from 'ai';
import { codeTool } from 'glovebox-sandbox/ai';

export async function ask(question: string, model: LanguageModel): Promise<string> {
  await using run_code = codeTool({ limits: { memoryBytes: 256 << 20 } });
  const { text } = await generateText({ model, tools: { run_code }, prompt: question, stopWhen: isStepCount(10) });
  return text;
}
