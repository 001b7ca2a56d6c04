import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.filter.BooleanExpression;
import org.apache.activemq.filter.MessageEvaluationContext;
import org.apache.activemq.selector.SelectorParser;

/**
 * Which messages do selectors accept? Two files, one item in a line, texts in base64 so that no line end is in them:
 * selectors, and messages as name:type:value with blanks between. A line of 0 and 1 for each selector, or ! and why not.
 */
public class Selectors {
    public static void main(String[] args) throws Exception {
        List<ActiveMQMessage> messages = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(args[1]))) {
            ActiveMQMessage message = new ActiveMQMessage();
            for (String property : line.split(" ")) {
                String[] parts = property.split(":", -1);
                // false: names are checked by the translation, and a name that JMS refuses is never asked for.
                message.setObjectProperty(text(parts[0]), value(parts[1], text(parts[2])), false);
            }
            messages.add(message);
        }
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            System.out.println(ask(text(line), messages));
        }
    }

    private static String ask(String selector, List<ActiveMQMessage> messages) {
        StringBuilder found = new StringBuilder();
        try {
            BooleanExpression test = SelectorParser.parse(selector);
            for (ActiveMQMessage message : messages) {
                MessageEvaluationContext context = new MessageEvaluationContext();
                context.setMessageReference(message);
                found.append(test.matches(context) ? '1' : '0');
            }
            return found.toString();
        } catch (Exception error) {
            return "! " + error.toString().replace('\n', ' ');
        }
    }

    private static Object value(String type, String text) {
        return switch (type) {
            case "i" -> Long.valueOf(text);
            case "d" -> Double.valueOf(text);
            case "b" -> Boolean.valueOf(text);
            default -> text;
        };
    }

    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }
}
