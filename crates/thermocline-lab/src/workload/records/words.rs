//! The words that made-up records are made of, a line a list.

/// Beginnings of given names.
pub const FIRST: &str = "Ad Al An Ar Bel Ber Bo Bra Cal Car Ce Chris Da De Dor Ed El Em Er Fe Flo Fran Ga Ge Gil Gra Han Har \
    Hel Hu Is Ja Je Jo Ju Ka Ken La Le Li Lo Lu Ma Mar Me Mi Mor Na Ni No Ol Os Pa Pe Phi Ra Re Ro Sa Si \
    Ste Ta Te Tho Ul Va Vi Wal Wil Za";
/// Their ends.
pub const SECOND: &str = "a bert da den dy el ena ert ia ick ie in la lan lia lin lyn mas mie na nan ne nie no ra rah ren ric \
    rie ro ry sa son ta ter than tin ton ty va ver vin";
/// Beginnings of family names.
pub const FAMILY: &str = "Abern Ander Bart Becht Berg Bey Boyl Cart Cole Crem Dach Dick Dool Ebert Fah Feen Fish Frie Gerl \
    Good Green Hahn Haley Heath Herm Hill Hoeg Jac Jen Kass Kerl Klein Koel Kuhn Lang Lesch Lind Mar \
    Mayer Mert Mos Mul Nien Nol Ort Park Pfan Pow Quig Rau Reil Roh Run Sch Sim Stan Strom Thom Tor Trem \
    Up Von Walk Weis Wil Wis Yost Zem";
/// Their ends.
pub const FAMILY_END: &str = "athy aub bauer berg by dale den ein elman er feld ford ger ham haus hert ins iss ke kins ler ley lin \
    man mann mer mon nell ner nik os ot quist ra rath sen ski smith son stein ter thal ton tz us way \
    wood worth y";
/// Ends of names of places.
pub const PLACE_END: &str = "ville ton burgh field ford haven land mouth port side stead view worth bury chester dale mere ham";
pub const COUNTRIES: &str = "Albania Argentina Austria Bahrain Belgium Bermuda Bolivia Botswana Brazil Bulgaria Canada Chile \
    Colombia Croatia Cyprus Denmark Ecuador Egypt Estonia Ethiopia Fiji Finland France Gabon Georgia \
    Germany Ghana Greece Guatemala Haiti Honduras Hungary Iceland India Indonesia Ireland Israel Italy \
    Jamaica Japan Jordan Kenya Kuwait Latvia Lebanon Liberia Lithuania Luxembourg Madagascar Malaysia \
    Mali Malta Mexico Monaco Morocco Namibia Nepal Netherlands Nicaragua Niger Norway Oman Panama \
    Paraguay Peru Philippines Poland Portugal Romania Rwanda Samoa Senegal Serbia Singapore Slovakia \
    Slovenia Spain Sweden Switzerland Thailand Togo Tonga Tunisia Turkey Uganda Ukraine Uruguay \
    Uzbekistan Vanuatu Vietnam Yemen Zambia Zimbabwe";
pub const MAIL: &str = "gmail.com yahoo.com hotmail.com example.org";
pub const JOB_LEVELS: &str =
    "Central Corporate Customer Direct District Dynamic Forward Future Global Human Internal \
    International Investor Lead Legacy National Principal Product Regional Senior";
pub const JOB_AREAS: &str = "Accountability Accounts Applications Assurance Brand Communications Configuration Creative Data \
    Directives Division Functionality Identity Implementation Infrastructure Integration Interactions \
    Intranet Marketing Markets Metrics Mobility Operations Optimization Paradigm Program Quality \
    Research Response Security Solutions Tactics Usability Web";
pub const JOB_ROLES: &str = "Administrator Agent Analyst Architect Assistant Associate Consultant Coordinator Designer Developer \
    Director Engineer Executive Facilitator Liaison Manager Officer Orchestrator Planner Producer \
    Representative Specialist Strategist Supervisor Technician";
pub const STREETS: &str = "Avenue Bridge Canyon Circle Court Creek Crossing Drive Extension Field Forest Garden Glen Green \
    Grove Harbor Heights Highway Hills Island Junction Lake Lane Lodge Meadow Mews Mill Mount Oval Park \
    Pass Path Pine Place Plain Point Port Ramp Ridge River Road Route Row Shoal Spring Square Station \
    Street Summit Terrace Trace Track Trail Tunnel Turnpike Union Valley View Village Vista Walk Way \
    Well";
pub const ADJECTIVES: &str = "able amber ancient autumn bitter bold brave bright broken calm careful cheerful clever cold \
    cooperative crisp curious damp dark dear deep distant early easy elegant fancy fast fine fresh \
    friendly frosty funny gentle giant glad golden grand great happy hasty heavy hidden honest humble \
    icy jolly keen kind late lazy light little lively lonely long loud lucky mild modern narrow neat \
    noble odd old open pale patient plain polite proud pure quick quiet rapid rare ready rich rough \
    royal safe salty shaky sharp shiny short silent silver simple sleepy slow small smart smooth soft \
    solid sour steep still strange strong sweet swift tall tame tender thin tidy tiny tough true vast \
    warm wary weak wet wide wild wise witty wooden young zesty";
pub const NOUNS: &str = "advocate anchor apple badge basin beach bell bird blade boat bone bottle branch bread bridge brush \
    bucket cabin candle canvas castle chair cheese circle cliff clock cloud coast copper corner cotton \
    creek crystal cup desert door dream drum eagle ear engine farm feather field finger fire flag flower \
    forest fork fruit garden gate glass glove grain grass harbor hat hill honey horn horse ice island \
    jacket jar key kite ladder lake lamp leaf lemon letter lock map market meadow mirror moon mountain \
    mouse nail needle nest net night oak ocean onion orange oven page paint paper path pearl pencil \
    piano pillow pipe plate pocket pond pot queen rabbit rail rain ring river road roof root rope sail \
    salt sand school scissors sea seed shadow sheep shell ship shirt shoe silk sky snow soap song spoon \
    spring star stone storm stream string sugar summer sun table tail tea tent thread thunder tiger \
    tooth tower town train tree trumpet tunnel umbrella valley vase village violin wagon wall water wave \
    wheel window wing winter wolf wood wool yard";
pub const GOODS: &str = "Bike Chair Keyboard Computer Gloves Pants Shirt Table Shoes Hat Towels Soap Tuna Chicken Fish Cheese \
    Bacon Pizza Salad Sausages Chips Ball Car Mouse";
pub const MATERIALS: &str = "Steel Bronze Wooden Concrete Plastic Cotton Granite Rubber Metal Soft Fresh Frozen Silk Ceramic \
    Bamboo Aluminum Marble Gold";
pub const GOODS_KINDS: &str = "Small Ergonomic Electronic Rustic Intelligent Gorgeous Incredible Elegant Fantastic Practical Modern \
    Recycled Sleek Bespoke Awesome Generic Handcrafted Handmade Oriental Licensed Luxurious Refined \
    Unbranded Tasty";
pub const DEPARTMENTS: &str = "Books Movies Music Games Electronics Computers Home Garden Tools Grocery Health Beauty Toys Kids \
    Baby Clothing Shoes Jewelry Sports Outdoors Automotive Industrial";
